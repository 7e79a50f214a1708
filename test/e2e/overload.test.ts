// A flood beyond the bounds is refused, with a problem that says when to come back; what was accepted is answered, each
// message once, and what was refused gets in when it is sent again.
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const { track } = useCleanups();
const WAITING = 20;
/** More than the messages of the first flood: each may be the first of a conversation. */
const CONVERSATIONS = 45;

test.each(['sqlite', 'redis'] as const)('on %s', async (backend) => {
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const model = track(await startModelServer());
  let go = (): void => undefined;
  const held = new Promise<void>((resolve) => (go = resolve));
  // Every worker slot is taken, so that nothing is answered while the flood comes in.
  for (let n = 0; n < 2; n += 1) model.enqueue({ text: 'at last', hold: held });
  const config = withModel(model.openaiUrl, {
    server: { overload: { conversation_messages: WAITING, conversations: CONVERSATIONS } },
    workers: { concurrency: 2 },
    agent: { on_busy: { direct: 'steer' } },
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY], limits: { per_minute: 100_000 } } },
  });
  const server = track(await startServer({ config, ...(redis ? { redisUrl: redis.url } : {}) }));
  const client = createWebhookClient(() => server.url);

  const flood = (names: { id: string; conversation: string }[]) =>
    Promise.all(
      names.map(async (name) => {
        const response = await client.post(`text of ${name.id}`, name);
        const { code } = (await response.json()) as { code?: string };
        return { ...name, status: response.status, code, retryAfter: response.headers.get('retry-after') };
      }),
    );

  const one = await flood(Array.from({ length: 40 }, (_, n) => ({ id: `one-${n}`, conversation: 'one' })));
  const taken = one.filter(({ status }) => status === 202);
  const full = one.filter(({ status }) => status === 429);
  expect([taken.length, full.length]).toEqual([WAITING, 40 - WAITING]);
  for (const { code, retryAfter } of full) {
    expect(code).toBe('conversation_full');
    expect(retryAfter).toMatch(/^\d+$/);
  }

  const many = await flood(
    Array.from({ length: 80 }, (_, n) => ({ id: `many-${n}`, conversation: `c${n}` })),
  );
  const turnedAway = many.filter(({ status }) => status === 503);
  expect(turnedAway[0]).toMatchObject({ code: 'overloaded', retryAfter: '5' });
  // Those that were still on their way in counted twice: one after another they fill what is left, and not more.
  const later = [];
  for (const name of turnedAway) later.push(...(await flood([name])));
  const letIn = [...many, ...later].filter(({ status }) => status === 202);
  const refused = later.filter(({ status }) => status === 503);
  // `one` is one of those that wait.
  expect([letIn.length, refused.length]).toEqual([CONVERSATIONS - 1, 80 - CONVERSATIONS + 1]);

  go();
  for (const { id } of [...taken, ...letIn])
    expect(await client.settled(id)).toMatchObject({ status: 'done' });
  const again = await flood([full[0]!, refused[0]!]);
  expect(again.map(({ status }) => status)).toEqual([202, 202]);
  for (const { id } of again) expect(await client.settled(id)).toMatchObject({ status: 'done' });

  // In the history once, and what was refused not at all.
  const said = async (conversation: string) =>
    (await readConversation(server.url, `webhook:${conversation}`, ADMIN_TOKEN)).messages.flatMap(
      ({ id }) => id ?? [],
    );
  const wanted = [...taken, full[0]!].map(({ id }) => id);
  expect((await said('one')).toSorted()).toEqual(wanted.toSorted());
  for (const { id, conversation } of letIn) expect(await said(conversation)).toEqual([id]);
  expect(await said(refused[1]!.conversation)).toEqual([]);
});
