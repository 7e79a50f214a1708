// A known path with another method is 405 with Allow, not 404.
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { AppError } from '../domain/errors.ts';

const METHODS: HTTPMethods[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Call before the routes are registered; the returned function after that. */
export function watchMethods(app: FastifyInstance): () => void {
  const allowed = new Map<string, Set<string>>();
  let watching = true;
  app.addHook('onRoute', ({ url, method }) => {
    if (!watching || url.includes('*')) return;
    const methods = allowed.get(url) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    allowed.set(url, methods);
  });

  return () => {
    watching = false;
    for (const [url, methods] of allowed) {
      const allow = [...methods].join(', ');
      app.route({
        url,
        method: METHODS.filter((method) => !methods.has(method)),
        schema: { hide: true },
        // Before the body is read: nobody is interested in it.
        onRequest: async (_request, reply) => {
          reply.header('allow', allow);
          throw new AppError('method_not_allowed', `This path takes ${allow}.`);
        },
        handler: async () => undefined,
      });
    }
  };
}
