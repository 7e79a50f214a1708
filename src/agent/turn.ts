// One turn: a model call and all the calls of tools that it asked for, between turn_start and turn_end.
import type { StopReason, Usage } from '../domain/messages.ts';
import type { ModelEvent, ReplyBlock } from '../ports/model.ts';
import { readReply } from './assistant.ts';
import { runBatch, type BatchOutcome, type Done } from './batch.ts';
import type { Call } from './assistant.ts';
import { apologise, cancelled, failed, type End } from './ending.ts';
import { healOverflow } from './context/overflow.ts';
import { callModel, type ModelReply } from './model-call.ts';
import { ask, emit, type Run } from './run.ts';
import { NUDGE } from './wording.ts';

export type TurnOutcome =
  /** Tools ran: the model is to see the results. */
  | { kind: 'tools' }
  /** The model answered. */
  | { kind: 'text'; stop: StopReason }
  /** Nothing came, though it was asked again. */
  | { kind: 'empty' }
  | { kind: 'end'; end: End };

/** `nudged`: the model said nothing before; it is told to, for this call only. */
export async function takeTurn(run: Run, nudged: boolean): Promise<TurnOutcome> {
  startTurn(run);
  const restore = nudged ? run.transcript.inject(NUDGE) : undefined;
  const emptyRetries = nudged ? 0 : run.options.settings.empty_reply_retries;
  const reply = await askModel(run, { allowTools: true, emptyRetries });
  restore?.();
  if (reply.type === 'failed') {
    const end =
      reply.stop === 'aborted' && run.abort.signal.aborted ? cancelled(run, reply) : failed(run, reply);
    return { kind: 'end', end };
  }
  if (isEmpty(reply.content)) {
    emit(run, { type: 'message_reset' });
    endTurn(run, reply.stop, reply);
    return { kind: 'empty' };
  }
  const { message, calls, text } = readReply(run, reply.content, reply.stop);
  const { stop, usage, model } = reply;
  run.transcript.append({ message, at: run.options.clock.now(), model, stop });
  emit(run, { type: 'message_end', message, usage });
  run.unwritten.push({ v: 1, kind: 'assistant', message, model, stop, usage });
  if (calls.length > 0) {
    run.aside = text.trim();
    return await runTools(run, calls, { stop, usage, model });
  }
  run.finals.push(text.trim());
  run.aside = '';
  const end = hasTurnHooks(run) ? await afterTurn(run, []) : undefined;
  endTurn(run, stop, reply);
  return end ? { kind: 'end', end } : { kind: 'text', stop };
}

interface TurnEnd {
  stop: StopReason;
  usage?: Usage | undefined;
  model?: string | undefined;
}

/** The batch of a turn and what comes of it; also where a resumed run goes on. */
export async function runTools(
  run: Run,
  calls: readonly Call[],
  { stop, usage, model }: TurnEnd,
  done?: Done,
): Promise<TurnOutcome> {
  const batch = await runBatch(run, calls, done);
  const end =
    batch.failing === undefined && hasTurnHooks(run) ? await afterTurn(run, batch.finished) : undefined;
  endTurn(run, stop, { usage, model });
  if (batch.failing !== undefined) {
    return {
      kind: 'end',
      end: apologise(run, { key: 'too_many_failures', stop: 'error', parameters: { tool: batch.failing } }),
    };
  }
  if (end) return { kind: 'end', end };
  if (batch.terminate) return { kind: 'end', end: terminated(run, batch) };
  return { kind: 'tools' };
}

/** The tools themselves ended the run: what the assistant said with the calls is the answer, else what they gave. */
function terminated(run: Run, { finished }: BatchOutcome): End {
  const given = finished.map(({ block: { content } }) =>
    typeof content === 'string'
      ? content
      : content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
  );
  run.finals.push(run.aside || given.join('\n\n'));
  run.aside = '';
  return { status: 'done', stop: 'tool_use' };
}

export function startTurn(run: Run): void {
  run.turn++;
  run.turnOpen = true;
  emit(run, { type: 'turn_start' });
}

export function endTurn(run: Run, stop: StopReason, { usage, model }: Omit<TurnEnd, 'stop'>): void {
  run.turnOpen = false;
  emit(run, { type: 'turn_end', stop, usage, model });
}

interface Asking {
  allowTools: boolean;
  /** How often to ask again, silently, when nothing comes. */
  emptyRetries: number;
}

/** One reply: after an overflow the context is made to fit and the call made again; so are calls that brought nothing. */
export function askModel(run: Run, asking: Asking): Promise<ModelReply> {
  emit(run, { type: 'message_start', role: 'assistant' });
  return callModel(run, asking.allowTools).then((reply) =>
    isOverflow(reply) || (reply.type === 'done' && isEmpty(reply.content))
      ? askAgain(run, reply, asking)
      : reply,
  );
}

async function askAgain(
  run: Run,
  first: ModelReply,
  { allowTools, emptyRetries }: Asking,
): Promise<ModelReply> {
  const again = () => {
    emit(run, { type: 'message_reset' });
    return callModel(run, allowTools);
  };
  let reply = first;
  if (isOverflow(reply)) {
    if (await healOverflow(run, reply)) reply = await again();
    run.overflowed = isOverflow(reply);
  }
  const retries = run.options.mayBeSilent ? 0 : emptyRetries;
  for (let n = 0; n < retries && reply.type === 'done' && isEmpty(reply.content); n++) reply = await again();
  return reply;
}

const isOverflow = (reply: ModelEvent) => reply.type === 'failed' && reply.error?.kind === 'overflow';

/** Nothing for the user and nothing to do. Reasoning alone is nothing. */
export const isEmpty = (content: readonly ReplyBlock[]): boolean =>
  !content.some(
    (block) =>
      block.type === 'tool_call' ||
      block.type === 'image' ||
      (block.type === 'text' && block.text.trim() !== ''),
  );

const hasTurnHooks = ({ options: { hooks } }: Run) =>
  hooks?.prepareNextTurn !== undefined || hooks?.shouldStopAfterTurn !== undefined;

/** The hooks after a turn. An End: the run is to stop here. */
async function afterTurn(run: Run, finished: BatchOutcome['finished']): Promise<End | undefined> {
  const { hooks } = run.options;
  const { entries, view } = run.transcript;
  const message = entries.findLast((entry) => entry.message.role === 'assistant')!.message;
  const results = finished.map(({ block }) => block);
  const info = { turn: run.turn, message, results, messages: view, usage: run.usage };
  const next = await ask(run, 'prepareNextTurn', () => hooks?.prepareNextTurn?.(info));
  if (next?.model) run.model = next.model;
  if (next?.thinking) run.thinking = next.thinking;
  if (next?.context) run.transcript.show(next.context);
  const stop = await ask(run, 'shouldStopAfterTurn', () => hooks?.shouldStopAfterTurn?.(info));
  if (!stop) return undefined;
  if (run.aside !== '') run.finals.push(run.aside);
  if (typeof stop === 'object') run.finals.push(stop.reply);
  run.aside = '';
  return { status: 'done', stop: 'stop' };
}
