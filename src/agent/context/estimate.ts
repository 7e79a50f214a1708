// Estimated tokens, without a tokenizer: a weight for each character class. Tokenizers are exact for one vendor only and
// quadratic on long unbroken runs; this is linear, and calibrated by what the model reports (calibration.ts).
import type { Block, Message } from '../../domain/messages.ts';
import type { ToolSpec } from '../../ports/model.ts';

const LETTER = 0.2;
const DIGIT = 0.5;
const SPACE = 0.1;
const PUNCTUATION = 0.6;
const CJK = 0.8;
const OTHER = 1;

const IMAGE_TOKENS = 1_200;
const FILE_TOKENS = 50;
const TOOL_USE_TOKENS = 50;
const TOOL_RESULT_TOKENS = 30;
/** Role and separators of a message. */
const MESSAGE_TOKENS = 4;

const ASCII = Float64Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code);
  if (/[A-Za-z]/u.test(char)) return LETTER;
  if (/\d/u.test(char)) return DIGIT;
  return /\s/u.test(char) ? SPACE : PUNCTUATION;
});

/** Han, kana, Hangul, and CJK punctuation and full-width forms. */
const isCjk = (code: number) =>
  (code >= 0x2e80 && code <= 0x9fff) ||
  (code >= 0xac00 && code <= 0xd7ff) ||
  (code >= 0xf900 && code <= 0xffef);

export function estimateText(text: string): number {
  let tokens = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    tokens += code < 128 ? ASCII[code]! : isCjk(code) ? CJK : OTHER;
  }
  return tokens;
}

export function estimateMessage(message: Message): number {
  let tokens = MESSAGE_TOKENS;
  for (const block of message.content) tokens += estimateBlock(block);
  return tokens;
}

function estimateBlock(block: Block): number {
  switch (block.type) {
    case 'text':
      return estimateText(block.text);
    case 'thinking':
      return estimateText(block.thinking) + estimateText(block.redacted ?? '');
    case 'image':
      return IMAGE_TOKENS;
    case 'file':
      return FILE_TOKENS + estimateText(block.name);
    case 'tool_use':
      return TOOL_USE_TOKENS + estimateText(block.name) + estimateText(JSON.stringify(block.input));
    case 'tool_result': {
      if (typeof block.content === 'string') return TOOL_RESULT_TOKENS + estimateText(block.content);
      let tokens = TOOL_RESULT_TOKENS;
      for (const part of block.content) tokens += estimateBlock(part);
      return tokens;
    }
  }
}

export function estimateMessages(messages: readonly Message[]): number {
  let tokens = 0;
  for (const message of messages) tokens += estimateMessage(message);
  return tokens;
}

/** What is sent besides the messages. */
export function estimatePrompt(system: string, tools: readonly ToolSpec[]): number {
  return estimateText(system) + (tools.length === 0 ? 0 : estimateText(JSON.stringify(tools)));
}
