// The in-memory parts of embedded storage: bounded, and nothing is left of a conversation that is quiet.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { LoggedEvent } from '../../src/ports/events.ts';
import type { Logger } from '../../src/ports/log.ts';
import { createSignals } from '../../src/storage/sqlite/control.ts';
import { createLocalEvents } from '../../src/storage/sqlite/events.ts';
import type { EventLogOptions } from '../../src/storage/sqlite/events.ts';
import { createLocalLanes } from '../../src/storage/sqlite/lanes.ts';
import { update } from '../contract/suites/support.ts';
import { silentLog } from '../fakes/log.ts';

const never = () => new AbortController().signal;

describe('local events', () => {
  const create = (options: EventLogOptions = {}) => {
    const events = createLocalEvents(options);
    onTestFinished(() => events.close());
    return events;
  };
  const firstAfter = async (
    events: ReturnType<typeof createLocalEvents>,
    conversation: string,
    after: string,
  ): Promise<LoggedEvent | 'nothing'> => {
    const subscription = await events.subscribe(conversation, { after, signal: never() });
    const next = subscription[Symbol.asyncIterator]().next();
    const idle = new Promise<'nothing'>((resolve) => {
      setImmediate(() => resolve('nothing'));
    });
    const first = await Promise.race([next, idle]);
    await subscription.close();
    if (first === 'nothing') return first;
    if (first.done === true) throw new Error('ended');
    return first.value;
  };

  it('drops the events of a quiet conversation, and says so to who comes back for them', async () => {
    const events = create({ idleMs: 20 });
    const { end: before } = await events.position('acct:a');
    await events.publish('acct:a', [update('acct:a', '1')]);
    const { end: after } = await events.position('acct:a');
    expect(await firstAfter(events, 'acct:a', before)).toMatchObject({ event: { delta: '1' } });
    await vi.waitFor(async () =>
      expect(await firstAfter(events, 'acct:a', before)).toMatchObject({ resync: true }),
    );
    // Who had seen all of it has missed nothing.
    expect(await firstAfter(events, 'acct:a', after)).toBe('nothing');
  });

  it('keeps within its memory: the quietest conversations are dropped first', async () => {
    const events = create({ maxChars: 20_000 });
    const { end: start } = await events.position('acct:0');
    for (let n = 0; n < 10; n += 1)
      await events.publish(`acct:${n}`, [update(`acct:${n}`, 'x'.repeat(4_800))]);
    expect(await firstAfter(events, 'acct:0', start)).toMatchObject({ resync: true });
    expect(await firstAfter(events, 'acct:9', start)).toMatchObject({ resync: true });
    const kept = await events.position('acct:9');
    await events.publish('acct:9', [update('acct:9', 'new')]);
    expect(await firstAfter(events, 'acct:9', kept.end)).toMatchObject({ event: { delta: 'new' } });
  });

  it('does not wait for an id that was never given out', async () => {
    const events = create();
    const { end } = await events.position('acct:a');
    const future = end.replace(/\d+$/, '99');
    expect(await firstAfter(events, 'acct:a', future)).toEqual({ id: end, resync: true });
  });

  it('a huge event does not stay for good', async () => {
    const events = create({ maxChars: 10_000 });
    const subscription = await events.subscribe('acct:a', { signal: never() });
    await events.publish('acct:a', [update('acct:a', 'x'.repeat(50_000))]);
    const { value } = (await subscription[Symbol.asyncIterator]().next()) as { value: LoggedEvent };
    expect(value).toMatchObject({ resync: true });
    await subscription.close();
  });

  it('ends its readers when it is closed', async () => {
    const events = create();
    const subscription = await events.subscribe('acct:a', { signal: never() });
    const next = subscription[Symbol.asyncIterator]().next();
    events.close();
    events.close();
    expect(await next).toMatchObject({ done: true });
    await events.publish('acct:a', [update('acct:a', '1')]);
    const late = await events.subscribe('acct:a', { signal: never() });
    expect(await late[Symbol.asyncIterator]().next()).toMatchObject({ done: true });
  });
});

describe('local lanes', () => {
  it('report a handler that throws, with what will happen', async () => {
    const errors: [Record<string, unknown>, string][] = [];
    const log: Logger = { ...silentLog, error: (fields, message) => errors.push([fields, message]) };
    const lanes = createLocalLanes({ log, backoffMs: 1, maxBackoffMs: 4 });
    onTestFinished(() => lanes.close(0));
    let calls = 0;
    await lanes.work(
      async () => {
        calls += 1;
        if (calls < 5) throw new Error('broken on purpose');
        return 'idle';
      },
      { concurrency: 1 },
    );
    await lanes.wake('acct:a');
    await vi.waitFor(() => expect(calls).toBe(5));
    expect(errors.map(([fields]) => fields['retryInMs'])).toEqual([1, 2, 4, 4]);
    expect(errors[0]?.[0]).toMatchObject({ conversation: 'acct:a', failed: 1 });
    await vi.waitFor(async () => expect(await lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }));
  });

  it('take a delay that no timer can take for a long one, not for none', async () => {
    const lanes = createLocalLanes({ log: silentLog });
    onTestFinished(() => lanes.close(0));
    let calls = 0;
    await lanes.work(
      async () => {
        calls += 1;
        return calls === 1 ? { retryInMs: 2 ** 40 } : 'idle';
      },
      { concurrency: 1 },
    );
    await lanes.wake('acct:a');
    await vi.waitFor(async () => expect((await lanes.depth()).delayed).toBe(1));
    await lanes.wake('acct:b');
    await vi.waitFor(() => expect(calls).toBe(2));
    expect(await lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 1 });
  });

  it('work once', async () => {
    const lanes = createLocalLanes({ log: silentLog });
    onTestFinished(() => lanes.close(0));
    await lanes.work(async () => 'idle', { concurrency: 1 });
    await expect(lanes.work(async () => 'idle', { concurrency: 1 })).rejects.toThrow('twice');
  });
});

describe('local signals', () => {
  it('report a handler that throws', () => {
    const errors: string[] = [];
    const signals = createSignals({ ...silentLog, error: (_, message) => errors.push(message) });
    signals.on(() => {
      throw new Error('broken on purpose');
    });
    signals.emit({ type: 'cancel', conversation: 'acct:a', run: 'r1' });
    expect(errors).toHaveLength(1);
  });
});
