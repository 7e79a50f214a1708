// Feishu on a gateway and workers of their own, and with several apps on one server: one card whichever worker finishes it;
// accounts of the server never answer each other, and other bots only so often.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import {
  APP_ID,
  APP_SECRET,
  BOT_OPEN_ID,
  messageEvent,
  OTHER_APP,
  startFeishuServer,
} from '../fakes/feishu-server.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel } from '../fakes/server.ts';

const { later, track } = useCleanups();

const bot = { openId: BOT_OPEN_ID, name: 'Lane' };
const PATIENCE = { timeout: 20_000 };

test('a worker that dies while a card grows is replaced, and the card is finished', async () => {
  const [feishu, model, redis] = [await startFeishuServer(), await startModelServer(), await startRedis()];
  for (const fake of [feishu, model, redis]) track(fake);
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-feishu-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const config = withModel(model.openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    channels: { team: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: feishu.url } },
  });
  const start = async (role: string, faultPoint = '') =>
    track(
      await startServer({
        config,
        dataDir,
        redisUrl: redis.url,
        entry: join(import.meta.dirname, '../fakes/fault-server.ts'),
        args: ['--role', role],
        env: { FAULT_POINT: faultPoint, FAULT_ONCE: join(dataDir, 'fault') },
      }),
    );
  const gateway = await start('gateway');
  await gateway.line(/long connection is up/);
  const worker = await start('worker', 'before_commit');
  model.enqueue({ text: ['One', ' two', ' three', ' four', ' five.'], chunkDelayMs: 150 });
  expect(await feishu.push(messageEvent({ id: 'om_1', text: 'count' }))).toBe(200);
  await worker.ended;
  expect(feishu.messages).toHaveLength(1);
  model.enqueue({ text: 'One two three, once more.' });
  await start('worker');
  await vi.waitFor(() => {
    expect(feishu.seen('oc_chat')).toEqual(['One two three, once more.']);
    expect([...feishu.cards.values()].map(({ streaming }) => streaming)).toEqual([false]);
  }, PATIENCE);
  expect(feishu.messages).toHaveLength(1);
});

test('accounts of one server never answer each other; another bot is answered until max_bot_turns', async () => {
  const [feishu, model] = [track(await startFeishuServer()), track(await startModelServer())];
  const app = { type: 'feishu', domain: feishu.url, streaming: false, typing: false };
  const config = withModel(model.openaiUrl, {
    channels: {
      team: { ...app, app_id: APP_ID, app_secret: APP_SECRET, group: { max_bot_turns: 2 } },
      other: { ...app, app_id: OTHER_APP.id, app_secret: OTHER_APP.secret },
    },
  });
  const server = track(await startServer({ config }));
  for (const account of ['team', 'other'])
    await server.line(new RegExp(`"account":"${account}".*long connection is up`));
  const say = async (id: string, sender: string, author?: string) => {
    if (author !== undefined) feishu.quotes.set(id, { text: id, sender: author, senderType: 'app' });
    const from = { sender, senderType: author === undefined ? 'user' : 'app' };
    const event = messageEvent({ id, group: true, ...from, text: `@_user_1 ${id}`, mentions: [bot] });
    expect(await feishu.push(event)).toBe(200);
  };
  const answered = (...ids: string[]) =>
    vi.waitFor(() => expect(feishu.messages.map(({ replyTo }) => replyTo)).toEqual(ids), PATIENCE);

  await say('om_ours', 'ou_other_as_team_knows_it', OTHER_APP.id);
  await say('om_bot_1', 'ou_foreign', 'cli_00000000000000ff');
  await answered('om_bot_1');
  await say('om_bot_2', 'ou_foreign', 'cli_00000000000000ff');
  await answered('om_bot_1', 'om_bot_2');
  await say('om_bot_3', 'ou_foreign', 'cli_00000000000000ff');
  // A person ends the count; had those before been answered, it would show.
  await say('om_person', 'ou_ada');
  await answered('om_bot_1', 'om_bot_2', 'om_person');
  await say('om_bot_4', 'ou_foreign', 'cli_00000000000000ff');
  await answered('om_bot_1', 'om_bot_2', 'om_person', 'om_bot_4');
});
