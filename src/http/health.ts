// What monitors ask: is the process alive, is it ready, what are the figures. Open to everybody who can reach the port:
// nothing in it names a user.
import type { FastifyInstance } from 'fastify';
import type { AppOptions } from './options.ts';

export function registerHealth(app: FastifyInstance, { state, metrics }: AppOptions): void {
  const tags = ['health'];

  app.get('/healthz', { schema: { tags, summary: 'The process is alive' } }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    return { status: 'ok' };
  });

  app.get(
    '/readyz',
    { schema: { tags, summary: 'Ready for messages; 503 and the reasons if not' } },
    async (_request, reply) => {
      const reasons = await state.ready();
      reply.header('cache-control', 'no-store');
      if (reasons.length === 0) return { status: 'ready', reasons };
      reply.code(503).header('retry-after', '5');
      return { status: 'not ready', reasons };
    },
  );

  app.get('/metrics', { schema: { tags, summary: 'Prometheus metrics' } }, async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.render();
  });
}
