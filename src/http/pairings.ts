// The management API of pairings: strangers who wrote directly to an account that pairs, and people who were let in.
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { AppError } from '../domain/errors.ts';
import type { Pairing } from '../ports/people.ts';
import { createApproval } from '../inbox/pairing.ts';
import { adminRoutes } from './admin-routes.ts';
import type { HttpParts } from './parts.ts';

const tags = ['management'];
const codeParams = z.object({ code: z.string().min(1).max(64) });

/** Under the prefix /api. */
export async function registerPairings(
  app: FastifyInstance,
  { options, auth, now }: HttpParts,
): Promise<void> {
  const { people } = options.storage;
  const approve = createApproval({ storage: options.storage, clock: { now }, log: options.log });

  await app.register(
    async (scope) => {
      const routes = adminRoutes(scope, auth);

      routes.get(
        '/pairings',
        { schema: { tags, summary: 'People who asked to talk to the bot, or were let in' } },
        async () => ({ items: (await people.list()).map(shown) }),
      );

      routes.post(
        '/pairings/:code/approve',
        { schema: { tags, summary: 'Let a person in', params: codeParams } },
        async (request) =>
          found(request.params.code, await approve(request.params.code.toUpperCase(), 'api')),
      );

      routes.delete(
        '/pairings/:code',
        { schema: { tags, summary: 'Refuse a request, or take an approval back', params: codeParams } },
        async (request) => found(request.params.code, await people.remove(request.params.code.toUpperCase())),
      );
    },
    { prefix: '/api' },
  );
}

function found(code: string, pairing: Pairing | undefined) {
  if (!pairing) throw new AppError('not_found', `There is no pairing code "${code}", or it is too old.`);
  return shown(pairing);
}

/** Without the address, which is the channel's own business. */
function shown({ approvedAt, approvedBy, tell: _tell, ...pairing }: Pairing) {
  return {
    ...pairing,
    state: approvedAt === undefined ? 'waiting' : 'approved',
    ...(approvedAt === undefined ? {} : { approved_at: approvedAt, approved_by: approvedBy }),
  };
}
