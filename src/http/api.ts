// The management API, for the console and for scripts: conversations, channels, deliveries. Admin token or session.
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { accountOf } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import type { DeliveryRecord } from '../domain/delivery.ts';
import type { Channel, ChannelStatus } from '../ports/channel.ts';
import { adminRoutes } from './admin-routes.ts';
import type { HttpParts } from './parts.ts';

const tags = ['management'];
export const pageQuery = z.object({
  cursor: z.string().min(1).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});
const idParams = z.object({ id: z.string().min(1) });

/** Under the prefix /api. */
export async function registerApi(app: FastifyInstance, { options, auth }: HttpParts): Promise<void> {
  const { storage, channels, log } = options;
  const { reader, store, control, outbox } = storage;

  /** An id whose account was never configured names nothing; any other conversation exists, be it empty. */
  function checkConversation(id: string): void {
    const account = accountOf(id);
    if (!channels.has(account) || account === id)
      throw new AppError('not_found', `There is no conversation "${id}".`);
  }

  await app.register(
    async (scope) => {
      const routes = adminRoutes(scope, auth);

      routes.get(
        '/conversations',
        {
          schema: { tags, summary: 'Conversations, the most recently active first', querystring: pageQuery },
        },
        async (request) => reader.list(pageOf(request.query)),
      );

      routes.get(
        '/conversations/:id',
        {
          schema: {
            tags,
            summary: 'One conversation: a page of its history, oldest first; the cursor leads to older pages',
            params: idParams,
            querystring: pageQuery,
          },
        },
        async (request) => {
          const { id } = request.params;
          checkConversation(id);
          const [{ items, cursor }, state] = await Promise.all([
            reader.history(id, pageOf(request.query)),
            reader.state(id),
          ]);
          return { id, messages: items, ...state, ...(cursor === undefined ? {} : { cursor }) };
        },
      );

      routes.post(
        '/conversations/:id/cancel',
        { schema: { tags, summary: 'Cancel the active run', params: idParams } },
        async (request) => {
          const { id } = request.params;
          checkConversation(id);
          const run = await control.cancel(id);
          return { id, cancelled: run !== undefined, ...(run === undefined ? {} : { run }) };
        },
      );

      routes.post(
        '/conversations/:id/reset',
        { schema: { tags, summary: 'Start over: forget the history', params: idParams } },
        async (request) => {
          const { id } = request.params;
          checkConversation(id);
          const { cancelledRun } = await store.reset(id);
          return { id, reset: true, ...(cancelledRun === undefined ? {} : { run: cancelledRun }) };
        },
      );

      routes.get(
        '/channels',
        { schema: { tags, summary: 'Channel accounts and their states' } },
        async () => ({
          items: [...channels.values()].map(channelBody),
        }),
      );

      routes.get(
        '/tools',
        { schema: { tags, summary: 'Tools: what is on, for whom, from where, and how the sources are' } },
        async () => options.tools?.() ?? { items: [], sources: [] },
      );

      routes.get(
        '/deliveries',
        {
          schema: {
            tags,
            summary: 'What waits to be sent, or was given up',
            querystring: pageQuery.extend({ state: z.enum(['pending', 'parked']).default('parked') }),
          },
        },
        async (request) => {
          const { state } = request.query;
          const { items, cursor } = await outbox.list({ state, ...pageOf(request.query) });
          return { items: items.map(shown), ...(cursor === undefined ? {} : { cursor }) };
        },
      );

      routes.post(
        '/deliveries/:id/retry',
        { schema: { tags, summary: 'Send a parked delivery again', params: idParams } },
        async (request, reply) => {
          const { id } = request.params;
          const conversation = await outbox.retry(id);
          if (conversation === undefined) throw new AppError('not_found', `No delivery "${id}" is parked.`);
          await storage.deliveries.wake(conversation).catch((error: unknown) => {
            log.warn({ error, conversation }, 'wake failed; the sweep will pick the delivery up');
          });
          reply.code(202);
          return { id, conversation, state: 'pending' };
        },
      );
    },
    { prefix: '/api' },
  );
}

export function pageOf({ cursor, limit }: z.output<typeof pageQuery>): { cursor?: string; limit: number } {
  return { limit, ...(cursor === undefined ? {} : { cursor }) };
}

function channelBody(channel: Channel): { account: string; type: string } & ChannelStatus {
  const { account, type } = channel;
  return { account, type, ...channel.status() };
}

/** Without the address: it belongs to the channel, and a callback URL may hold a secret. */
function shown({ address: _address, ...record }: DeliveryRecord): Omit<DeliveryRecord, 'address'> {
  return record;
}
