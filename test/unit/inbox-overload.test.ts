// Overload: what is let in, what is refused, and when; over a real storage and the real event loop.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { createLoopDelay, createOverload, type OverloadSettings } from '../../src/inbox/overload.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { acceptOn } from '../fakes/accept.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { recordingLog, silentLog } from '../fakes/log.ts';
import { openTestStorage } from '../fakes/storage.ts';

const { later } = useCleanups();
let storage: Storage;
beforeEach(async () => {
  storage = await openTestStorage(later);
});

const settings = (more: Partial<OverloadSettings>): OverloadSettings => ({
  conversation_messages: 0,
  conversations: 0,
  event_loop_delay_ms: 0,
  ...more,
});
const message = (id: string, chat = 'c1') => ({ id, chat, sender: { id: 'u1' }, text: 'hello' });
const codes = (results: PromiseSettledResult<unknown>[]) =>
  results.map((result) =>
    result.status === 'fulfilled' ? 'in' : (result.reason as { code: string; retryAfterMs: number }).code,
  );

test('conversations that wait: as many as are allowed, of messages that come at once; room is found when there is some', async () => {
  const { log, lines } = recordingLog();
  let asked = 0;
  const depth = () => ((asked += 1), storage.lanes.depth());
  const overload = createOverload({
    lanes: { depth },
    settings: () => settings({ conversations: 20 }),
    loopDelayMs: () => 0,
    log,
  });
  const { accept, counts } = acceptOn(storage, { overload });
  const flood = Array.from({ length: 50 }, (_, n) => accept('acc', message('m', `c${n}`)));
  const got = codes(await Promise.allSettled(flood));
  expect(got.filter((code) => code === 'in')).toHaveLength(20);
  expect(got.filter((code) => code === 'overloaded')).toHaveLength(30);
  expect(await storage.lanes.depth()).toMatchObject({ waiting: 20 });
  expect(counts.filter((count) => count === 'acc refused')).toHaveLength(30);
  expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  // One question serves all that wait for it.
  expect(asked).toBeLessThan(20);
  await expect(accept('acc', message('later', 'c99'))).rejects.toMatchObject({
    code: 'overloaded',
    retryAfterMs: 5_000,
  });

  await storage.lanes.work(() => Promise.resolve('idle'), { concurrency: 5 });
  await expect.poll(async () => (await storage.lanes.depth()).waiting).toBe(0);
  expect(await accept('acc', message('later', 'c99'))).toMatchObject({ status: 'queued' });
  expect(lines.at(-1)).toMatchObject({ level: 'info' });
});

test('far below the bound the queue is hardly ever asked', async () => {
  let asked = 0;
  const depth = async () => ((asked += 1), { waiting: 0, active: 0, delayed: 0 });
  const conversations = settings({ conversations: 100_000 });
  const overload = createOverload({
    lanes: { depth },
    settings: () => conversations,
    loopDelayMs: () => 0,
    log: silentLog,
  });
  for (let n = 0; n < 9_000; n += 1) (await overload.admit())[Symbol.dispose]();
  expect(asked).toBe(1);
});

test('messages of one conversation: as many as may wait; /stop works, others are not affected', async () => {
  const { accept } = acceptOn(storage, { maxWaiting: 3 });
  const flood = ['a', 'b', 'c', 'd', 'e'].map((id) => accept('acc', message(id)));
  expect(codes(await Promise.allSettled(flood))).toEqual([
    'in',
    'in',
    'in',
    'conversation_full',
    'conversation_full',
  ]);
  expect(await accept('acc', message('b'))).toMatchObject({ status: 'duplicate' });
  expect(await accept('acc', { ...message('f'), text: '/stop' })).toMatchObject({ status: 'command' });
  expect(await accept('acc', message('a', 'c2'))).toMatchObject({ status: 'queued' });
});

test('a message that does not get in interrupts nothing', async () => {
  const { accept } = acceptOn(storage, { maxWaiting: 1, agent: { on_busy: { direct: 'interrupt' } } });
  await accept('acc', message('a'));
  const claim = await storage.store.claim('acc:c1', { run: 'r', leaseMs: 60_000, limit: 5 });
  if (claim.status !== 'claimed') throw new Error(claim.status);
  await expect(accept('acc', message('b'))).rejects.toMatchObject({ code: 'conversation_full' });
  expect(await storage.store.renew(claim.lease, 60_000)).toEqual({ cancelled: false });
});

test('an event loop that is late: refused until it keeps up again', async () => {
  const delay = createLoopDelay();
  const overload = createOverload({
    lanes: storage.lanes,
    settings: () => settings({ event_loop_delay_ms: 40 }),
    loopDelayMs: delay.ms,
    log: silentLog,
  });
  const { accept } = acceptOn(storage, { overload });
  const spinFor = (ms: number) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  };
  let n = 0;
  const status = () =>
    accept('acc', message(`m${(n += 1)}`)).then(
      (accepted) => accepted.status,
      (error: { code: string }) => error.code,
    );
  expect(await status()).toBe('queued');
  await expect
    .poll(
      async () => {
        for (let turn = 0; turn < 3; turn += 1) {
          spinFor(120);
          await nextTurn();
        }
        return status();
      },
      { timeout: 10_000 },
    )
    .toBe('overloaded');
  await expect.poll(status, { timeout: 10_000 }).toBe('queued');
  delay.close();
});
