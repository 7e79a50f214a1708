// The operator's page at /console: sign in with the admin token, get a session cookie, look after the server through the
// management API. Its files are in console/, as they are; nothing is loaded from anywhere else.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { AppError } from '../domain/errors.ts';
import { refuseCrossSite, SESSION_COOKIE, SESSION_SECONDS } from './auth.ts';
import { createRateLimiter } from './limits.ts';
import type { HttpParts } from './parts.ts';

const FILES = {
  '/console': ['index.html', 'text/html; charset=utf-8'],
  '/assets/console/console.js': ['console.js', 'text/javascript; charset=utf-8'],
  '/assets/console/pairings.js': ['pairings.js', 'text/javascript; charset=utf-8'],
  '/assets/console/tools-view.js': ['tools-view.js', 'text/javascript; charset=utf-8'],
  '/assets/console/view.js': ['view.js', 'text/javascript; charset=utf-8'],
  '/assets/console/strings.js': ['strings.js', 'text/javascript; charset=utf-8'],
  '/assets/console/console.css': ['console.css', 'text/css; charset=utf-8'],
} as const;

/** Tokens tried per minute: by one address, and by all of them. */
const SIGN_INS = { address: 10, all: 60 };
const tags = ['management'];

export async function registerConsole(
  app: FastifyInstance,
  { options, auth, now }: HttpParts,
): Promise<void> {
  const limit = createRateLimiter({
    perMinute: (key) => (key === 'all' ? SIGN_INS.all : SIGN_INS.address),
    now,
  });

  for (const [url, [name, type]] of Object.entries(FILES)) {
    const text = await readFile(fileURLToPath(new URL(`console/${name}`, import.meta.url)), 'utf8');
    app.get(url, { schema: { hide: true } }, async (_request, reply) => {
      reply.type(type).header('cache-control', 'no-cache');
      return text;
    });
  }

  app.withTypeProvider<ZodTypeProvider>().post(
    '/console/session',
    {
      schema: {
        tags,
        summary: 'Sign in at the console with the admin token; a cookie keeps the session',
        body: z.object({ token: z.string().max(1024) }),
      },
    },
    async (request, reply) => {
      refuseCrossSite(request);
      limit.take(`address ${request.ip}`);
      limit.take('all');
      if (!auth.isAdmin(request.body.token.trim()))
        throw new AppError('unauthorized', 'This is not the admin token.');
      reply.setCookie(SESSION_COOKIE, auth.newSession(), {
        ...cookie,
        secure: request.protocol === 'https' || options.config.server.public_url.startsWith('https:'),
        maxAge: SESSION_SECONDS,
      });
      return { signed_in: true };
    },
  );

  app.delete(
    '/console/session',
    { schema: { tags, summary: 'Sign out of the console' } },
    async (request, reply) => {
      refuseCrossSite(request);
      reply.clearCookie(SESSION_COOKIE, cookie);
      return { signed_in: false };
    },
  );
}

const cookie = { path: '/', httpOnly: true, sameSite: 'strict' } as const;
