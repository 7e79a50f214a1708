// POST /channels/:account/events: what a platform pushes. The channel checks that it is the platform, over the raw bytes.
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { AppError } from '../domain/errors.ts';
import { acceptBytes } from './body.ts';
import type { HttpParts } from './parts.ts';
import { accountParams } from './webhook-access.ts';

const MAX_BYTES = 1_048_576;

export async function registerEvents(app: FastifyInstance, { options }: HttpParts): Promise<void> {
  await app.register(async (scope) => {
    acceptBytes(scope, () => Math.min(options.config.server.body_limit_bytes, MAX_BYTES));
    scope.withTypeProvider<ZodTypeProvider>().post(
      '/channels/:account/events',
      {
        schema: {
          tags: ['channels'],
          summary: 'Events of a platform; only the platform can sign them',
          params: accountParams,
        },
      },
      async (request, reply) => {
        const { account } = request.params;
        const receive = options.channels.get(account)?.receive;
        if (!receive) throw new AppError('unknown_account', `Account "${account}" takes no events.`);
        const headers = Object.fromEntries(
          Object.entries(request.headers).map(([name, value]) => [
            name,
            Array.isArray(value) ? value[0] : value,
          ]),
        );
        const body: unknown = request.body;
        const answer = await receive({ headers, body: Buffer.isBuffer(body) ? body : new Uint8Array() });
        return reply.status(answer.status).send(answer.body);
      },
    );
  });
}
