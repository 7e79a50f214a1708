// The management API of failed messages: what went wrong, and asking again.
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { AppError } from '../domain/errors.ts';
import { pageOf, pageQuery } from './api.ts';
import { adminRoutes } from './admin-routes.ts';
import type { HttpParts } from './parts.ts';

const tags = ['management'];
const messageParams = z.object({ id: z.string().min(1), message: z.string().min(1) });

/** Under the prefix /api. */
export async function registerFailed(app: FastifyInstance, { options, auth }: HttpParts): Promise<void> {
  const { storage, log } = options;

  await app.register(
    async (scope) => {
      const routes = adminRoutes(scope, auth);

      routes.get(
        '/messages',
        {
          schema: {
            tags,
            summary: 'Messages whose run failed, the newest failure first, with the error',
            querystring: pageQuery.extend({ state: z.enum(['failed']).default('failed') }),
          },
        },
        async (request) => storage.failed.list(pageOf(request.query)),
      );

      routes.post(
        '/conversations/:id/messages/:message/retry',
        { schema: { tags, summary: 'Ask a failed message again', params: messageParams } },
        async (request, reply) => {
          const { id: conversation, message: id } = request.params;
          if (!(await storage.failed.retry(conversation, id)))
            throw new AppError('not_found', `No message "${id}" of "${conversation}" has failed.`);
          await storage.lanes.wake(conversation).catch((error: unknown) => {
            log.warn({ error, conversation }, 'wake failed; the sweep will pick the message up');
          });
          reply.code(202);
          return { id, conversation, state: 'queued' };
        },
      );
    },
    { prefix: '/api' },
  );
}
