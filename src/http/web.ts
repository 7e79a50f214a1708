// The chat page and its routes: messages in, the conversation and its events out. The id of a conversation is made by the
// browser from 128 random bits and grants access to it; web-access.ts says who may come this far.
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { chatSchema, messageBodySchema, toChannelMessage } from '../../channels/web/parse.ts';
import { conversationId } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import type { LoggedEvent } from '../ports/events.ts';
import { acceptFiles, acceptJson } from './body.ts';
import { fileParams, keepFile, nameQuery, sendFile } from './files.ts';
import { createRateLimiter } from './limits.ts';
import type { HttpParts } from './parts.ts';
import { clientSignal, lastEventId, streamEvents, type ServerEvent } from './sse.ts';
import { createWebAccess, type WebAccess } from './web-access.ts';
import { registerWebPage } from './web-page.ts';
import { WEB_COOKIE, WEB_SESSION_SECONDS } from './web-session.ts';
import { accountParams } from './webhook-access.ts';

const BASE = '/web/:account/conversations/:chat';
const conversationParams = z.object({ account: z.string(), chat: chatSchema });
/** History entries of one answer. */
const PAGE_ENTRIES = 60;
/** Keys tried per minute: by one address, and by all of them. */
const SIGN_INS = { address: 10, all: 60 };

const tags = ['web'];

export async function registerWeb(app: FastifyInstance, parts: HttpParts): Promise<void> {
  const access = createWebAccess(parts);
  if (access.accounts.length === 0) return;
  await app.register(registerWebPage);
  await app.register(async (scope) => {
    acceptJson(scope, parts.options.config.server.body_limit_bytes);
    scope.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store');
    });
    registerSession(scope, parts, access);
    registerConversations(scope, parts, access);
  });
  await app.register(async (scope) => registerFiles(scope, parts, access));
}

/** Files of the conversations: shown or downloaded, and left for the next message. */
function registerFiles(scope: FastifyInstance, parts: HttpParts, access: WebAccess): void {
  const { options, messageLimit } = parts;
  acceptFiles(scope, options.media.maxBytes);
  const routes = scope.withTypeProvider<ZodTypeProvider>();
  // Before the body is read.
  scope.addHook('onRequest', async (request) => {
    access.check(accountParams.parse(request.params).account, request);
  });

  routes.get(
    '/web/:account/media/:ref',
    { schema: { tags, summary: 'A file of a conversation', params: fileParams, querystring: nameQuery } },
    (request, reply) => sendFile(reply, options.media, { ref: request.params.ref, name: request.query.name }),
  );

  routes.post(
    '/web/:account/media',
    {
      schema: {
        tags,
        summary: 'Leave a file, as the body, for the next message',
        params: accountParams,
        querystring: nameQuery,
      },
    },
    async (request, reply) => {
      messageLimit.take(request.params.account);
      reply.code(201).header('cache-control', 'no-store');
      const type = request.headers['content-type'];
      return keepFile(options.media, request.body, { type, name: request.query.name });
    },
  );
}

/** Which accounts there are and whether this browser may use them; and entering a key. */
function registerSession(scope: FastifyInstance, { options, now }: HttpParts, access: WebAccess): void {
  const routes = scope.withTypeProvider<ZodTypeProvider>();
  const limit = createRateLimiter({
    perMinute: (key) => (key === 'all' ? SIGN_INS.all : SIGN_INS.address),
    now,
  });

  routes.get(
    '/web/session',
    { schema: { tags, summary: 'The accounts of the chat page' } },
    async (request) => {
      access.checkOrigin(request);
      return {
        accounts: access.accounts.map((name) => ({ name, signed_in: access.mayUse(name, request) })),
      };
    },
  );

  routes.post(
    '/web/session',
    {
      schema: {
        tags,
        summary: 'Enter a key; a cookie keeps it',
        body: z.strictObject({ key: z.string().max(1024) }),
      },
    },
    async (request, reply) => {
      access.checkOrigin(request);
      limit.take(`address ${request.ip}`);
      limit.take('all');
      const cookie = access.sessions.open(request.body.key.trim());
      if (cookie === undefined) throw new AppError('unauthorized', 'The key is not right.');
      reply.setCookie(WEB_COOKIE, cookie, {
        path: '/web',
        httpOnly: true,
        sameSite: 'strict',
        secure: request.protocol === 'https' || options.config.server.public_url.startsWith('https:'),
        maxAge: WEB_SESSION_SECONDS,
      });
      return { signed_in: true };
    },
  );
}

function registerConversations(scope: FastifyInstance, parts: HttpParts, access: WebAccess): void {
  const routes = scope.withTypeProvider<ZodTypeProvider>();
  const { options, messageLimit, streams, closing } = parts;
  const { accept } = options;
  const { reader, events, control } = options.storage;

  // Before the body is read.
  scope.addHook('onRequest', async (request) => {
    const { account } = request.params as { account?: string };
    if (account !== undefined) access.check(account, request);
  });

  routes.post(
    `${BASE}/messages`,
    { schema: { tags, summary: 'Send a message', params: conversationParams, body: messageBodySchema } },
    async (request, reply) => {
      const { account, chat } = request.params;
      messageLimit.take(account);
      const { id } = request.body;
      const accepted = await accept(account, toChannelMessage(chat, request.body));
      const conversation = conversationId(account, chat);
      if (accepted.status === 'command')
        return { id, conversation, status: 'command', reply: accepted.reply };
      if (accepted.status === 'ignored')
        return { id, conversation, status: 'ignored', reason: accepted.reason };
      reply.code(202);
      return { id, conversation, status: accepted.status };
    },
  );

  routes.get(
    BASE,
    {
      schema: {
        tags,
        summary: 'The conversation, newest page first; and the event id to subscribe after',
        params: conversationParams,
        querystring: z.object({ cursor: z.string().max(1024).optional() }),
      },
    },
    async (request) => {
      const { account, chat } = request.params;
      const { cursor } = request.query;
      const conversation = conversationId(account, chat);
      // In this order: what happens in between is then in the history, in the events, or in both, and never in neither. The
      // page knows by the run id what it has already.
      const position = await events.position(conversation);
      const { run, pending } = await reader.state(conversation);
      const page = await reader.history(conversation, {
        limit: PAGE_ENTRIES,
        ...(cursor === undefined ? {} : { cursor }),
      });
      const busy = run !== undefined || pending > 0;
      return {
        id: conversation,
        messages: page.items,
        pending,
        event_id: busy ? position.run : position.end,
        ...(run === undefined ? {} : { run }),
        ...(page.cursor === undefined ? {} : { cursor: page.cursor }),
      };
    },
  );

  routes.get(
    `${BASE}/events`,
    {
      schema: {
        tags,
        summary: 'The events of its runs (text/event-stream); resumes after Last-Event-ID',
        params: conversationParams,
        querystring: z.object({ after: z.string().max(256).optional() }),
      },
    },
    async (request, reply) => {
      const { account, chat } = request.params;
      const after = lastEventId(request) ?? request.query.after;
      const subscription = await events.subscribe(conversationId(account, chat), {
        signal: AbortSignal.any([clientSignal(reply), closing]),
        ...(after === undefined ? {} : { after }),
      });
      await streamEvents(streams.open(reply), subscription, toServerEvent);
      return reply;
    },
  );

  routes.post(
    `${BASE}/cancel`,
    { schema: { tags, summary: 'Cancel the active run', params: conversationParams } },
    async (request) => {
      const { account, chat } = request.params;
      const run = await control.cancel(conversationId(account, chat));
      return { cancelled: run !== undefined, ...(run === undefined ? {} : { run }) };
    },
  );
}

function toServerEvent(logged: LoggedEvent): ServerEvent {
  if ('resync' in logged) return { id: logged.id, event: 'resync', data: {} };
  return { id: logged.id, event: logged.event.type, data: logged.event };
}
