// The webhook's routes: a program's message in; its answer after a wait, as events, or by asking for the status. The
// callbacks are sent by the channel itself (channels/webhook).
import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import {
  chatFrom,
  chatSchema,
  fingerprint,
  toChannelMessage,
  webhookBodySchema,
} from '../../channels/webhook/parse.ts';
import { conversationId } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import { UrlRefused, type Guard } from '../net/guard.ts';
import type { ChannelMessage } from '../ports/channel.ts';
import {
  answerAsEvents,
  answerLater,
  answerNow,
  deadline,
  messageBody,
  wantsEvents,
  type MessageBody,
} from './answer.ts';
import { follow } from './follow.ts';
import type { HttpParts } from './parts.ts';
import { waitSeconds } from './prefer.ts';
import { clientSignal, lastEventId } from './sse.ts';
import { accountParams, guardWebhook, messageIdOf, MESSAGES } from './webhook-access.ts';

const tags = ['webhook'];

export async function registerWebhook(app: FastifyInstance, parts: HttpParts): Promise<void> {
  await app.register(async (scope) => {
    const accountOf = guardWebhook(scope, parts);
    const routes = scope.withTypeProvider<ZodTypeProvider>();
    const { storage, log, state, config } = parts.options;
    const publicUrl = config.server.public_url;

    routes.post(
      MESSAGES,
      { schema: { tags, summary: 'Send a message', params: accountParams, body: webhookBodySchema } },
      async (request, reply) => {
        if (state.draining()) throw new AppError('draining', 'The server is shutting down.');
        const { name, guard } = accountOf(request);
        const message = toChannelMessage(name, messageIdOf(request) ?? `msg_${randomUUID()}`, request.body);
        checkCallback(guard, message);
        reply.header('location', `/webhook/${name}/messages/${encodeURIComponent(message.id)}`);
        return send(request, reply, name, message);
      },
    );

    routes.get(
      `${MESSAGES}/messages/:id`,
      {
        schema: {
          tags,
          summary: 'What became of a message; as an event stream, if that is accepted',
          params: accountParams.extend({ id: z.string() }),
        },
      },
      async (request, reply) => {
        const { account, id } = request.params;
        const known = await storage.index.find(account, id);
        const status = known && (await storage.reader.status(known.conversation, id));
        if (!status) throw new AppError('not_found', `There is no message "${id}".`);
        const message = { id, conversation: known.conversation, publicUrl };
        reply.header('cache-control', 'no-store');
        if (!wantsEvents(request)) return messageBody(message, status);
        await using follower = await follow({
          storage,
          message,
          after: lastEventId(request),
          signal: clientSignal(reply),
          log,
        });
        await answerAsEvents(parts.streams.open(reply), message, follower, true, log);
        return reply;
      },
    );

    routes.post(
      `${MESSAGES}/conversations/:conversation/cancel`,
      {
        schema: {
          tags,
          summary: 'Cancel the active run of a conversation',
          params: accountParams.extend({ conversation: chatSchema }),
        },
      },
      async (request) => {
        const { account } = request.params;
        const conversation = conversationId(account, chatFrom(account, request.params.conversation));
        const run = await storage.control.cancel(conversation);
        return { conversation, cancelled: run !== undefined, ...(run === undefined ? {} : { run }) };
      },
    );
  });

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    account: string,
    message: ChannelMessage,
  ): Promise<MessageBody | FastifyReply> {
    const { options, intake, streams, closing } = parts;
    const { storage, log } = options;
    const name = {
      id: message.id,
      conversation: parts.conversationOf(account, message),
      publicUrl: options.config.server.public_url,
    };
    const events = wantsEvents(request);
    const seconds = events ? 0 : waitSeconds(request.headers.prefer);
    const append = () => intake(account, message, fingerprint(message));
    if (!events && seconds === 0) return answerNow(reply, name, await append());

    using limit = deadline(seconds);
    const signal = AbortSignal.any([clientSignal(reply), closing, limit.signal]);
    const after = events ? lastEventId(request) : undefined;
    // Attached before the append, so that nothing of the run is missed.
    await using follower = await follow({ storage, message: name, after, signal, log });
    const accepted = await append();
    if (accepted.status === 'command' || accepted.status === 'ignored')
      return answerNow(reply, name, accepted);
    const known = accepted.status === 'duplicate';
    if (events) {
      await answerAsEvents(streams.open(reply), name, follower, known, log);
      return reply;
    }
    reply.header('preference-applied', `wait=${seconds}`);
    // Awaited here: the follower and the limit end with this function.
    return await answerLater(reply, name, follower, known);
  }
}

/** What can be told without DNS is told now; the channel checks the addresses when it calls. */
function checkCallback(guard: Guard, message: ChannelMessage): void {
  if (!message.replyTo) return;
  try {
    guard.check(message.replyTo.key);
  } catch (error) {
    if (!(error instanceof UrlRefused)) throw error;
    throw new AppError('callback_refused', `callback_url is refused: ${error.message}.`, { cause: error });
  }
}
