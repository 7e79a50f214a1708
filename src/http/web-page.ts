// The chat page's files, as they are in channels/web/page; and the Markdown parser from its package. Nothing is built, and
// nothing is loaded from anywhere else: the content security policy says so to the browser.
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply } from 'fastify';

const PAGE = fileURLToPath(new URL('../../channels/web/page/', import.meta.url));
const MARKED = fileURLToPath(import.meta.resolve('marked'));
const ASSETS = '/assets/chat/';

const PAGE_POLICY = [
  "default-src 'self'",
  "base-uri 'none'",
  "object-src 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  // The page makes elements and text, never HTML: nothing in it could be fooled into running what a model wrote.
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

export async function registerWebPage(app: FastifyInstance): Promise<void> {
  const html = await readFile(`${PAGE}index.html`, 'utf8');

  app.get('/', { schema: { hide: true } }, async (_request, reply) => {
    reply
      .header('content-security-policy', PAGE_POLICY)
      .header('cache-control', 'no-cache')
      .type('text/html; charset=utf-8');
    return html;
  });

  const files = {
    decorateReply: false,
    // Asked for again each time, and answered "not modified": an update is seen at once.
    cacheControl: false,
    setHeaders: (reply: FastifyReply) => {
      reply.header('cache-control', 'no-cache');
    },
  };
  await app.register(fastifyStatic, {
    ...files,
    root: PAGE,
    prefix: ASSETS,
    index: false,
    allowedPath: (path) => !path.endsWith('.ts'),
  });
  await app.register(fastifyStatic, {
    ...files,
    root: dirname(MARKED),
    prefix: `${ASSETS}vendor/`,
    allowedPath: (path) => path === '/marked.esm.js',
  });
}
