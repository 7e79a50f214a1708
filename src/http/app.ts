// The HTTP side of the server, as a factory that doesn't listen: the composition root does, and tests inject.
import cookie from '@fastify/cookie';
import fastify, { type FastifyInstance } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import { conversationOf } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import { registerApi } from './api.ts';
import { createAuth } from './auth.ts';
import { acceptJson } from './body.ts';
import { registerConsole } from './console.ts';
import { registerDocs } from './docs.ts';
import { registerEvents } from './events.ts';
import { registerFailed } from './failed.ts';
import { registerHealth } from './health.ts';
import { createIntake } from './intake.ts';
import { createRateLimiter } from './limits.ts';
import { watchMethods } from './methods.ts';
import { registerLogins } from './logins.ts';
import { registerPairings } from './pairings.ts';
import { registerOpenAi } from './openai.ts';
import type { AppOptions } from './options.ts';
import type { HttpParts } from './parts.ts';
import { createErrorHandler, refusalOf, sendProblem } from './problem.ts';
import { registerSecurity } from './security.ts';
import { createEventStreams } from './sse.ts';
import { registerWeb } from './web.ts';
import { registerWebhook } from './webhook.ts';
import { registerWebhookMedia } from './webhook-media.ts';

/** A conversation id, every character of it percent-encoded. */
const MAX_PARAM_CHARS = 4096;
/** For a request to arrive, not for its answer. */
const REQUEST_TIMEOUT_MS = 60_000;

export async function createApp(options: AppOptions): Promise<FastifyInstance> {
  const { body_limit_bytes, public_url } = options.config.server;
  const app = fastify({
    logger: false,
    bodyLimit: body_limit_bytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // While closing, requests are refused by the routes themselves, as problems.
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAM_CHARS },
    frameworkErrors: (error, _request, reply) => sendProblem(reply, refusalOf(error)),
  });
  app.setValidatorCompiler(validatorCompiler);
  // Response schemas, where there are any, are for the description: what routes return is ours and typed.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler(createErrorHandler(options.log));
  app.setNotFoundHandler((request) => {
    throw new AppError('not_found', `There is no ${request.method} ${request.url.split('?')[0]}.`);
  });
  acceptJson(app, body_limit_bytes);
  await registerSecurity(app, public_url);
  await app.register(cookie);

  const parts = createParts(app, options);
  const addMethods = watchMethods(app);
  await registerDocs(app, public_url);
  registerHealth(app, options);
  await registerWebhook(app, parts);
  await registerWebhookMedia(app, parts);
  await registerEvents(app, parts);
  await registerWeb(app, parts);
  await registerOpenAi(app, parts);
  await registerApi(app, parts);
  await registerFailed(app, parts);
  await registerPairings(app, parts);
  await registerLogins(app, parts);
  await registerConsole(app, parts);
  addMethods();
  return app;
}

function createParts(app: FastifyInstance, options: AppOptions): HttpParts {
  const { config, storage, accept, channels, adminToken } = options;
  const now = () => options.clock?.now() ?? Date.now();
  const whose: HttpParts['conversationOf'] = (account, message) => {
    const settings = config.channels[account];
    return conversationOf(
      account,
      message,
      settings && 'group' in settings ? settings.group.scope : undefined,
    );
  };
  const limits = new Map<string, number>();
  const apiKeys = new Map<string, string[]>();
  for (const [account, settings] of Object.entries(config.channels)) {
    if ('limits' in settings) limits.set(account, settings.limits.per_minute);
    if (settings.type === 'webhook' && channels.has(account)) apiKeys.set(account, settings.api_keys);
  }
  const streams = createEventStreams();
  const closing = new AbortController();
  app.addHook('preClose', async () => {
    closing.abort();
    streams.closeAll();
  });
  return {
    options,
    auth: createAuth({ adminToken, apiKeys, now }),
    streams,
    intake: createIntake({ index: storage.index, accept, conversationOf: whose }),
    conversationOf: whose,
    messageLimit: createRateLimiter({ perMinute: (account) => limits.get(account) ?? 60, now }),
    closing: closing.signal,
    now,
  };
}
