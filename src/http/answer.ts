// A message's answer, told in the three ways a program may ask for it: at once, after a wait, as a stream of events.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { fileBodies, replyBody, type ReplyBody } from '../../channels/webhook/render.ts';
import type { Accepted } from '../ports/channel.ts';
import type { Logger } from '../ports/log.ts';
import { accountOf } from '../domain/conversation.ts';
import type { RunEvent } from '../domain/events.ts';
import type { MessageStatus } from '../ports/reader.ts';
import type { Follower } from './follow.ts';
import type { EventStream } from './sse.ts';

/** The JSON of every route that tells of a message. */
export interface MessageBody {
  id: string;
  conversation: string;
  status: MessageStatus['state'] | 'ignored';
  reply?: ReplyBody;
  run?: string;
  /** Why it was ignored. */
  reason?: string;
}

export interface MessageName {
  id: string;
  conversation: string;
  /** For the addresses of files. */
  publicUrl: string;
}

export function messageBody(message: MessageName, status: MessageStatus): MessageBody {
  const { id, conversation } = message;
  const { state, reply, run } = status;
  const place = { account: accountOf(conversation), publicUrl: message.publicUrl };
  const told = reply ? { reply: replyBody(reply, place) } : {};
  return { id, conversation, status: state, ...told, ...(run ? { run } : {}) };
}

/** What can be told without waiting for a run: 202, unless there is no run to wait for. */
export function answerNow(reply: FastifyReply, message: MessageName, accepted: Accepted): MessageBody {
  const { id, conversation } = message;
  switch (accepted.status) {
    case 'command':
      return { id, conversation, status: 'done', reply: { text: accepted.reply } };
    case 'ignored':
      return { id, conversation, status: 'ignored', reason: accepted.reason };
    default:
      reply.code(202);
      return { id, conversation, status: 'queued' };
  }
}

/** The answer, or 202 if the follower's signal aborts before. */
export async function answerLater(
  reply: FastifyReply,
  message: MessageName,
  follower: Follower,
  known: boolean,
): Promise<MessageBody> {
  for await (const item of follower.items(known))
    if ('answer' in item) return messageBody(message, item.answer);
  reply.code(202);
  return { id: message.id, conversation: message.conversation, status: 'queued' };
}

/** `queued`, the run's events under their own names and ids, and `done` with the JSON of the status route. */
export async function answerAsEvents(
  events: EventStream,
  message: MessageName,
  follower: Follower,
  known: boolean,
  log: Logger,
): Promise<void> {
  const { id, conversation } = message;
  try {
    await events.send({ event: 'queued', data: { id, conversation, status: 'queued' } });
    for await (const item of follower.items(known)) {
      const sent =
        'answer' in item
          ? await events.send({ event: 'done', data: messageBody(message, item.answer) })
          : await events.send({ id: item.id, event: item.event.type, data: eventBody(message, item.event) });
      if (!sent) break;
    }
  } catch (error) {
    log.error({ error, conversation }, 'event stream failed; its client resumes');
  } finally {
    events.end();
  }
}

/** As replies tell of files. */
function eventBody({ conversation, publicUrl }: MessageName, event: RunEvent): unknown {
  if (event.type !== 'agent_end' || !event.attachments) return event;
  const place = { account: accountOf(conversation), publicUrl };
  return { ...event, attachments: fileBodies(event.attachments, place) };
}

export const wantsEvents = (request: FastifyRequest): boolean =>
  /(^|,)\s*text\/event-stream\s*($|[,;])/i.test(request.headers.accept ?? '');

/** A signal that aborts after the given time; 0: never. Leaves no timer behind. */
export function deadline(seconds: number): { signal: AbortSignal } & Disposable {
  const controller = new AbortController();
  const timer = seconds > 0 ? setTimeout(() => controller.abort(), seconds * 1000) : undefined;
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}
