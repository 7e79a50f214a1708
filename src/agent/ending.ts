// How a run ends when it doesn't end with the model's own answer: the fixed sentence that the user gets, kept as the
// assistant's message, so that the history is what was seen.
import type { Block, StopReason } from '../domain/messages.ts';
import { textOf } from '../domain/messages.ts';
import { sentence, type SentenceKey } from '../domain/sentences.ts';
import type { ModelError, ReplyBlock } from '../ports/model.ts';
import { readReply } from './assistant.ts';
import { takeHeld } from './inbox.ts';
import type { ModelReply } from './model-call.ts';
import { emit, type Run } from './run.ts';

export interface End {
  status: 'done' | 'failed';
  stop: StopReason;
  /** Why it failed, for the operator. */
  error?: string;
}

type FailedReply = Extract<ModelReply, { type: 'failed' }>;

export interface Apology {
  key: SentenceKey;
  stop: StopReason;
  parameters?: Record<string, string>;
  /** For the operator; default: the sentence's name. */
  error?: string;
  /** What had arrived of the assistant's message when it failed; its message_start is out. */
  partial?: readonly ReplyBlock[];
  model?: string;
}

/** The sentence goes to the user and into the history, after what had arrived. */
export function apologise(run: Run, { key, stop, parameters, error = key, partial, model }: Apology): End {
  const { language, settings } = run.options;
  const custom = key === 'empty_reply' ? settings.empty_reply_text : '';
  const text = custom === '' ? sentence(key, language, parameters) : custom;
  emit(run, { type: 'error', code: key, message: text });
  run.finals.push(conclude(run, text, { stop, partial, model }));
  return { status: 'failed', stop, error };
}

export function failed(run: Run, reply: FailedReply): End {
  const { error, content, model } = reply;
  run.options.log.warn({ model, ...error }, 'the model call failed; the user is told');
  const key = keyOf(error);
  const why = error ? `${key}: ${error.message}` : key;
  return apologise(run, { key, stop: 'error', error: why, partial: content, model });
}

function keyOf(error: ModelError | undefined): SentenceKey {
  switch (error?.kind) {
    case 'overflow':
      return 'context_overflow';
    case 'rate_limit':
    case 'overloaded':
      return 'model_busy';
    case 'auth':
    case 'quota':
      return 'model_setup';
    case 'refused':
      return 'model_refused';
    default:
      return 'model_failed';
  }
}

/** Text so far is kept and returned, with a mark. */
export function cancelled(run: Run, reply?: FailedReply): End {
  const { language } = run.options;
  const partial = reply && textOf(readReply(run, reply.content, 'aborted', false).message.content).trim();
  const soFar = partial ? '' : run.aside;
  const nothing = !partial && soFar === '' && run.finals.length === 0;
  const mark = sentence(nothing ? 'cancelled' : 'cancelled_mark', language);
  const said = conclude(run, mark, { stop: 'aborted', partial: reply?.content, model: reply?.model });
  run.finals.push(soFar === '' ? said : `${soFar}\n\n${said}`);
  emit(run, { type: 'agent_cancelled' });
  return { status: 'done', stop: 'aborted' };
}

interface Conclusion {
  stop: StopReason;
  partial: readonly ReplyBlock[] | undefined;
  model: string | undefined;
}

/** Appends the assistant's last message: what had arrived of it, then the text. Returns its text. */
function conclude(run: Run, text: string, { stop, partial, model }: Conclusion): string {
  // Messages that the model will not see any more are kept before it, so that the history ends with the assistant.
  takeHeld(run);
  const arrived = partial ? readReply(run, partial, stop, false).message.content : [];
  const last = arrived.findLast((block) => block.type === 'text');
  const content: Block[] = last
    ? arrived.map((block) =>
        block === last ? { type: 'text', text: `${last.text.trimEnd()}\n\n${text}` } : block,
      )
    : [...arrived, { type: 'text', text }];
  const message = { role: 'assistant' as const, content };
  if (!partial) emit(run, { type: 'message_start', role: 'assistant' });
  emit(run, { type: 'message_update', delta: last ? `\n\n${text}` : text });
  emit(run, { type: 'message_end', message });
  run.transcript.append({
    message,
    at: run.options.clock.now(),
    stop,
    ...(model === undefined ? {} : { model }),
    ...(run.overflowed ? { compact: true } : {}),
  });
  if (run.turnOpen) {
    run.turnOpen = false;
    emit(run, { type: 'turn_end', stop, ...(model === undefined ? {} : { model }) });
  }
  return textOf(content);
}
