// What all routes of the management API share: the admin's credentials, and answers that no cache keeps.
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { HttpParts } from './parts.ts';

/** Of a scope of its own, since the hook holds for all of it. */
export function adminRoutes(scope: FastifyInstance, auth: HttpParts['auth']) {
  scope.addHook('onRequest', async (request, reply) => {
    auth.requireAdmin(request);
    reply.header('cache-control', 'no-store');
  });
  return scope.withTypeProvider<ZodTypeProvider>();
}
