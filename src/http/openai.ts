// The OpenAI-compatible API: any OpenAI client can talk to the bot. A completion is one message through accept() and its
// run's answer; the run's tools and history are the server's own.
import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { fingerprint, chatSchema } from '../../channels/webhook/parse.ts';
import { conversationId } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import type { StopReason, Usage } from '../domain/messages.ts';
import type { ChannelMessage } from '../ports/channel.ts';
import { bearerToken } from './auth.ts';
import { follow, type Answered, type Followed, type Follower } from './follow.ts';
import { replyBody } from '../../channels/webhook/render.ts';
import {
  chunkBody,
  completionBody,
  completionSchema,
  errorBody,
  fileLinks,
  finishReason,
  keepInline,
  newMessage,
  sendOpenAiError,
  usageBody,
  type Completion,
  type CompletionRequest,
} from './openai-shape.ts';
import { createTextStream } from './openai-text.ts';
import type { HttpParts } from './parts.ts';
import { createErrorHandler } from './problem.ts';
import { clientSignal } from './sse.ts';
import { headerOf, messageIdOf } from './webhook-access.ts';

const tags = ['openai'];

interface Asked {
  completion: Completion;
  account: string;
  message: ChannelMessage;
  conversation: string;
  includeUsage: boolean;
}

/** Under the prefix /v1. */
export async function registerOpenAi(app: FastifyInstance, parts: HttpParts): Promise<void> {
  const { options, auth, streams, intake, messageLimit, closing, now } = parts;
  const { storage, channels, models, log, state } = options;
  const publicUrl = options.config.server.public_url;

  /** The account whose api key it is: its conversations are the ones that its webhook has. */
  function accountOf(request: FastifyRequest): string {
    const token = bearerToken(request);
    const account = token === undefined ? undefined : auth.accountOf(token);
    if (account === undefined || !channels.has(account)) {
      const detail =
        'Send "Authorization: Bearer <key>": an api key of a webhook account, or the admin token.';
      throw new AppError('unauthorized', detail);
    }
    return account;
  }

  async function ask(request: FastifyRequest, reply: FastifyReply, body: CompletionRequest): Promise<Asked> {
    const account = accountOf(request);
    const given = body.user || headerOf(request, 'x-conversation-id');
    const chat = given === undefined ? undefined : chatSchema.safeParse(given);
    if (chat?.error) throw new AppError('invalid_body', `user: ${chat.error.issues[0]?.message}`);
    const id = messageIdOf(request) ?? `chatcmpl-${randomUUID()}`;
    const { text, attachments } = newMessage(body.messages, chat === undefined);
    const message: ChannelMessage = {
      id,
      chat: chat?.data ?? id,
      sender: { id: body.user || 'openai' },
      mentioned: true,
      text,
      attachments: await keepInline(options.media, attachments),
    };
    // Lets a client that named none go on in the same conversation.
    if (chat === undefined) reply.header('x-conversation-id', id);
    return {
      account,
      message,
      conversation: conversationId(account, message.chat),
      completion: { id, created: Math.floor(now() / 1000), model: body.model ?? models[0]?.id ?? 'default' },
      includeUsage: body.stream_options?.include_usage === true,
    };
  }

  await app.register(
    async (scope) => {
      scope.setErrorHandler(createErrorHandler(log, sendOpenAiError));
      scope.setNotFoundHandler((request) => {
        throw new AppError('not_found', `There is no ${request.method} ${request.url.split('?')[0]}.`);
      });
      scope.addHook('onRequest', async (request) => void accountOf(request));
      const routes = scope.withTypeProvider<ZodTypeProvider>();

      routes.get('/models', { schema: { tags, summary: 'Models' } }, async () => ({
        object: 'list',
        data: models.map(({ id }) => ({ id, object: 'model', created: 0, owned_by: 'lanekeeper' })),
      }));

      routes.post(
        '/chat/completions',
        { schema: { tags, summary: 'Send a message, get its answer', body: completionSchema } },
        async (request, reply) => {
          if (state.draining()) throw new AppError('draining', 'The server is shutting down.');
          const asked = await ask(request, reply, request.body);
          messageLimit.take(asked.account);
          const { message, conversation } = asked;
          const client = clientSignal(reply);
          const signal = AbortSignal.any([client, closing]);
          const name = { id: message.id, conversation };
          await using follower = await follow({ storage, message: name, signal, log });
          const accepted = await intake(asked.account, message, fingerprint(message));
          if (accepted.status === 'ignored') throw new AppError('forbidden', accepted.reason);
          const followed =
            accepted.status === 'command'
              ? answered({ state: 'done', reply: { text: accepted.reply } })
              : follower.items(accepted.status === 'duplicate');
          try {
            if (!request.body.stream) return await plain(reply, asked, followed);
            await stream(reply, asked, followed);
            return reply;
          } finally {
            // An OpenAI client stops an answer by hanging up.
            if (client.aborted && !reply.raw.writableFinished) await cancel(conversation, message.id);
          }
        },
      );
    },
    { prefix: '/v1' },
  );

  async function plain(
    reply: FastifyReply,
    { completion, account }: Asked,
    followed: AsyncIterable<Followed>,
  ) {
    let end: { stop: StopReason; usage: Usage } | undefined;
    for await (const item of followed) {
      if ('event' in item) {
        if (item.event.type === 'agent_end') end = item.event;
        continue;
      }
      const { state: status, reply: answer } = item.answer;
      if (status === 'failed') {
        // The message has its answer, this one: the client's own retry would only ask again.
        reply.header('x-should-retry', 'false');
        throw new AppError('model_unavailable', answer?.text ?? 'The run failed.');
      }
      const text = answer?.text ?? '';
      const links = answer ? fileLinks(replyBody(answer, { account, publicUrl })) : '';
      return completionBody(completion, `${text}${links}`, finishReason(end?.stop), end?.usage);
    }
    throw new AppError('draining', 'The server is shutting down; the answer goes into the history.');
  }

  async function stream(
    reply: FastifyReply,
    { completion, account, conversation, includeUsage }: Asked,
    followed: AsyncIterable<Followed>,
  ): Promise<void> {
    const events = streams.open(reply);
    const send = (data: unknown) => events.send({ data });
    const text = createTextStream();
    const place = { account, publicUrl };
    let end: { stop: StopReason; usage: Usage } | undefined;
    try {
      await send(chunkBody(completion, { role: 'assistant', content: '' }));
      for await (const item of followed) {
        if ('event' in item) {
          if (item.event.type === 'agent_end') end = item.event;
          const content = text.next(item.event);
          if (content !== '' && !(await send(chunkBody(completion, { content })))) return;
          continue;
        }
        const { state: status, reply: answer } = item.answer;
        if (status === 'failed') {
          await send(errorBody({ code: 'model_unavailable', detail: answer?.text ?? 'The run failed.' }));
        } else {
          const links = answer ? fileLinks(replyBody(answer, place)) : '';
          const rest = text.finish(answer?.text ?? '') + links;
          if (rest !== '') await send(chunkBody(completion, { content: rest }));
          await send(chunkBody(completion, {}, finishReason(end?.stop)));
          if (includeUsage)
            await send({ ...chunkBody(completion, {}), choices: [], usage: usageBody(end?.usage) });
        }
        await send('[DONE]');
      }
    } catch (error) {
      log.error({ error, conversation }, 'completion stream failed');
    } finally {
      events.end();
    }
  }

  /** Cancels the run that has the message, if that is the active one. */
  async function cancel(conversation: string, messageId: string): Promise<void> {
    try {
      const [status, active] = await Promise.all([
        storage.reader.status(conversation, messageId),
        storage.reader.state(conversation),
      ]);
      if (status?.state !== 'running' || status.run === undefined || status.run !== active.run) return;
      await storage.control.cancel(conversation);
    } catch (error) {
      log.warn({ error, conversation }, 'a run whose client has left could not be cancelled; it goes on');
    }
  }
}

// oxlint-disable-next-line require-yield -- async, to be read like the items of a follower
async function* answered(answer: Answered): ReturnType<Follower['items']> {
  yield { answer };
}
