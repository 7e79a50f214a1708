// The words of OpenAI's chat completions API: what clients send, what they get, errors included. Only what this server
// understands is named; everything else a client sends is let through and ignored, as other compatible servers do.
import { z } from 'zod';
import type { FastifyReply } from 'fastify';
import type { ReplyBody } from '../../channels/webhook/render.ts';
import type { StopReason, Usage } from '../domain/messages.ts';
import type { Attachment } from '../domain/inbound.ts';
import { AppError, ERRORS } from '../domain/errors.ts';
import type { MediaStore } from '../ports/media.ts';
import { refuse, type Refusal } from './problem.ts';

const partSchema = z.object({
  type: z.string(),
  text: z.string().optional(),
  image_url: z.union([z.string(), z.object({ url: z.string() })]).optional(),
});

const messageSchema = z.object({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(partSchema)]).nullish(),
});

export const completionSchema = z.object({
  model: z.string().optional().describe('Accepted and echoed; the server chooses the model.'),
  messages: z.array(messageSchema).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().optional() }).nullish(),
  n: z.literal(1, { error: 'must be 1' }).nullish(),
  user: z.string().nullish().describe('The conversation; else x-conversation-id, else a new one.'),
});

export type CompletionRequest = z.output<typeof completionSchema>;
type ChatMessage = CompletionRequest['messages'][number];

export interface NewMessage {
  text: string;
  attachments: Attachment[];
}

/**
 * What is new: the user messages after the last answer. The server keeps the history, so earlier ones are only taken,
 * as a transcript, into a conversation that starts with this request.
 */
export function newMessage(messages: readonly ChatMessage[], newConversation: boolean): NewMessage {
  const spoken = messages.filter(({ role }) => role !== 'system' && role !== 'developer');
  const lastAnswer = spoken.findLastIndex(({ role }) => role !== 'user');
  const fresh = spoken.slice(lastAnswer + 1);
  if (fresh.length === 0) throw new AppError('invalid_body', 'The last message must be from the user.');
  const text = fresh.map(textOf).join('\n\n').trim();
  const attachments = fresh.flatMap(imagesOf);
  if (text === '' && attachments.length === 0)
    throw new AppError('invalid_body', 'The last message is empty.');
  const earlier = newConversation ? spoken.slice(0, lastAnswer + 1).filter(saysSomething) : [];
  if (earlier.length === 0) return { text, attachments };
  const transcript = earlier.map((message) => `${message.role}: ${textOf(message)}`).join('\n\n');
  return { text: `[Earlier in this conversation]\n\n${transcript}\n\n[Now]\n\n${text}`, attachments };
}

const saysSomething = (message: ChatMessage): boolean =>
  (message.role === 'user' || message.role === 'assistant') && textOf(message) !== '';

function textOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content;
  return (content ?? []).flatMap(({ type, text }) => (type === 'text' && text ? [text] : [])).join('\n');
}

function imagesOf({ content }: ChatMessage): Attachment[] {
  if (typeof content === 'string' || !content) return [];
  return content
    .filter(({ type }) => type !== 'text')
    .map(({ type, image_url }) => {
      const url = typeof image_url === 'string' ? image_url : image_url?.url;
      if (type !== 'image_url' || url === undefined)
        throw new AppError('invalid_body', `Content parts of type "${type.slice(0, 40)}" are not supported.`);
      if (!/^https?:\/\//i.test(url) && !DATA_URL.test(url))
        throw new AppError('invalid_body', 'Give images as http(s) URLs, or as data: URLs in base64.');
      return { type: 'image', ref: url };
    });
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?;base64,/i;

/** Inline images are kept, and named by reference from here on. Rejects with media_refused. */
export async function keepInline(
  media: Pick<MediaStore, 'put'>,
  attachments: readonly Attachment[],
): Promise<Attachment[]> {
  return Promise.all(
    attachments.map(async (attachment) => {
      const [head, media_type] = DATA_URL.exec(attachment.ref) ?? [];
      if (head === undefined) return attachment;
      const bytes = Buffer.from(attachment.ref.slice(head.length), 'base64');
      return { ...attachment, ...(await media.put({ bytes, ...(media_type && { media_type }) })) };
    }),
  );
}

/** What is added to an answer's text for its files: this API has no other place for them. */
export const fileLinks = ({ attachments = [] }: ReplyBody): string =>
  attachments.map(({ name, url }) => `\n\n[${name.replaceAll(/[[\]]/g, '')}](${url})`).join('');

export interface Completion {
  id: string;
  /** Seconds since the epoch. */
  created: number;
  model: string;
}

type FinishReason = 'stop' | 'length';

export const finishReason = (stop: StopReason | undefined): FinishReason =>
  stop === 'length' ? 'length' : 'stop';

export function usageBody(usage: Usage | undefined) {
  const { input, output, cached } = usage ?? { input: 0, output: 0, cached: 0 };
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

export function completionBody(
  completion: Completion,
  content: string,
  finish_reason: FinishReason,
  usage: Usage | undefined,
) {
  const message = { role: 'assistant', content, refusal: null };
  return {
    ...completion,
    object: 'chat.completion',
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    usage: usageBody(usage),
  };
}

export function chunkBody(
  completion: Completion,
  delta: { role?: 'assistant'; content?: string },
  finish_reason: FinishReason | null = null,
) {
  return {
    ...completion,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
  };
}

/** OpenAI's error object. */
export function errorBody({ code, detail }: Pick<Refusal, 'code' | 'detail'>) {
  const { status } = ERRORS[code];
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error';
  const known: Partial<Record<Refusal['code'], string>> = {
    unauthorized: 'invalid_api_key',
    rate_limited: 'rate_limit_exceeded',
  };
  return { error: { message: detail, type, param: null, code: known[code] ?? code } };
}

/** For createErrorHandler. A body of the wrong shape is 400 here, as with OpenAI. */
export function sendOpenAiError(reply: FastifyReply, refusal: Refusal): void {
  refuse(reply, refusal);
  if (reply.statusCode === 422) reply.code(400);
  void reply.type('application/json').send(JSON.stringify(errorBody(refusal)));
}
