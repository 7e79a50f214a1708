// ModelClient that needs no key and no network: a newcomer sees a streamed answer and, when asking for the time, a run
// with a tool. It says plainly what it is.
import { setTimeout as sleep } from 'node:timers/promises';
import { languageOf, type Language } from '../domain/sentences.ts';
import { textOf, type Message, type ToolResultBlock } from '../domain/messages.ts';
import type { ModelClient, ModelEvent, ModelRequest, RawToolCall } from '../ports/model.ts';
import { newCallId } from './call-ids.ts';

export interface DemoOptions {
  name: string;
  contextWindow: number;
  maxOutputTokens: number;
  /** Between two pieces of the answer, so that the streaming shows. */
  chunkDelayMs?: number;
}

const CHUNK_CHARS = 24;
const ASKS_TIME =
  /\bwhat(?:'s| is)? (?:the )?(?:current )?(?:time|date)\b|\bwhat day\b|\btime (?:is it|now|in)\b|\bcurrent time\b|几点|时间|日期|几号|星期几|周几/i;

export function createDemoClient(options: DemoOptions): ModelClient {
  const { name, contextWindow, maxOutputTokens, chunkDelayMs = 2 } = options;

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const call = toolCall(request);
    if (call && !signal.aborted) {
      yield {
        type: 'done',
        content: [call],
        stop: 'tool_use',
        usage: usage(request, call.arguments),
        model: name,
      };
      return;
    }
    const answer = answerTo(request);
    let said = '';
    for (const chunk of chunks(answer)) {
      if (signal.aborted) break;
      said += chunk;
      yield { type: 'text', delta: chunk };
      // An abort only ends the pause early; the loop sees it.
      await sleep(chunkDelayMs, undefined, { signal }).catch(() => undefined);
    }
    const content = said ? [{ type: 'text' as const, text: said }] : [];
    const rest = { content, usage: usage(request, said), model: name };
    if (signal.aborted) yield { type: 'failed', stop: 'aborted', ...rest };
    else yield { type: 'done', stop: 'stop', ...rest };
  }

  return { name, contextWindow, maxOutputTokens, images: false, stream };
}

function toolCall(request: ModelRequest): RawToolCall | undefined {
  const text = newestText(request.messages);
  const offered = request.allowTools && request.tools.some((tool) => tool.name === 'now');
  if (!offered || newestResult(request.messages) || !ASKS_TIME.test(text)) return undefined;
  const zone = zoneIn(text);
  return { type: 'tool_call', id: newCallId(), name: 'now', arguments: JSON.stringify(zone ? { zone } : {}) };
}

function answerTo({ messages, tools }: ModelRequest): string {
  const text = newestText(messages);
  const language = languageOf(text);
  const result = newestResult(messages);
  const zh = language === 'zh';
  if (result) {
    const content = textOf(result.content).trim();
    if (result.is_error)
      return zh ? `查时间的工具出错了：${content}` : `The tool that tells the time failed: ${content}`;
    return zh ? `现在是 ${content}。\n\n${WHAT_I_AM.zh}` : `It is ${content}.\n\n${WHAT_I_AM.en}`;
  }
  return `${zh ? `你说的是：“${excerpt(text)}”。` : `You said: "${excerpt(text)}".`}\n\n${WHAT_I_AM[language]}${
    tools.some((tool) => tool.name === 'now') ? TRY[language] : ''
  }`;
}

const WHAT_I_AM: Record<Language, string> = {
  zh: '我是一个演示模型，不会思考，只用来说明其他部分都在正常工作。要和真正的模型对话，请设置 OPENAI_API_KEY 或 ANTHROPIC_API_KEY，或者在配置文件里添加模型，然后重新启动。',
  en: 'I am a demo model: I cannot think, I only show that everything else works. To talk to a real model, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add a model to the configuration, and start again.',
};

const TRY: Record<Language, string> = {
  zh: '\n\n可以试试问我“东京现在几点？”，你会看到一次工具调用。',
  en: '\n\nTry asking me "What time is it in Tokyo?" to see a tool call.',
};

/** What the user wrote last, without the time stamp that stands before it. */
function newestText(messages: Message[]): string {
  const message = messages.findLast(
    ({ role, content }) => role === 'user' && content.some((block) => block.type === 'text'),
  );
  return textOf(message?.content ?? '')
    .replace(/^\[[^\]\n]*\]\s*/, '')
    .trim();
}

/** The result of the call just made: it stands after the last answer. */
const newestResult = (messages: Message[]): ToolResultBlock | undefined =>
  messages.at(-1)?.content.find((block) => block.type === 'tool_result');

const MAX_EXCERPT_CHARS = 200;

const excerpt = (text: string): string =>
  text.length > MAX_EXCERPT_CHARS ? `${text.slice(0, MAX_EXCERPT_CHARS)}…` : text;

/** Places people ask about, by how they are called in English and Chinese. */
const PLACES: [RegExp, string][] = [
  [/tokyo|japan|东京|日本/i, 'Asia/Tokyo'],
  [/beijing|shanghai|shenzhen|china|北京|上海|深圳|广州|杭州|中国/i, 'Asia/Shanghai'],
  [/hong ?kong|香港/i, 'Asia/Hong_Kong'],
  [/taipei|taiwan|台北|台湾/i, 'Asia/Taipei'],
  [/singapore|新加坡/i, 'Asia/Singapore'],
  [/seoul|korea|首尔|韩国/i, 'Asia/Seoul'],
  [/delhi|mumbai|india|印度|孟买/i, 'Asia/Kolkata'],
  [/dubai|迪拜/i, 'Asia/Dubai'],
  [/sydney|悉尼/i, 'Australia/Sydney'],
  [/london|伦敦|英国/i, 'Europe/London'],
  [/paris|巴黎|法国/i, 'Europe/Paris'],
  [/berlin|germany|柏林|德国/i, 'Europe/Berlin'],
  [/moscow|莫斯科/i, 'Europe/Moscow'],
  [/new york|纽约/i, 'America/New_York'],
  [/chicago|芝加哥/i, 'America/Chicago'],
  [/los angeles|san francisco|california|洛杉矶|旧金山/i, 'America/Los_Angeles'],
  [/\butc\b|\bgmt\b/i, 'UTC'],
];

/** An IANA name in the text, or a place in the list. */
function zoneIn(text: string): string | undefined {
  const named =
    /\b(?:Africa|America|Asia|Atlantic|Australia|Europe|Indian|Pacific)\/[A-Za-z_]+(?:\/[A-Za-z_]+)?/.exec(
      text,
    );
  return named?.[0] ?? PLACES.find(([pattern]) => pattern.test(text))?.[1];
}

function* chunks(text: string): Generator<string> {
  let chunk = '';
  for (const char of text) {
    chunk += char;
    if (chunk.length < CHUNK_CHARS) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk) yield chunk;
}

/** Roughly four characters a token: enough to show counting. */
function usage(request: ModelRequest, said: string) {
  let chars = request.system.length;
  for (const { content } of request.messages) chars += textOf(content).length;
  return { input: Math.ceil(chars / 4), output: Math.ceil(said.length / 4), cached: 0 };
}
