// Retries, fallbacks and keys, with scripted clients and a clock that never waits.
import { describe, expect, it } from 'vitest';
import { createFailover, type RetrySettings } from '../../src/models/failover.ts';
import { createKeyed } from '../../src/models/keys.ts';
import type { ModelClient, ModelError, ModelErrorKind, ModelEvent } from '../../src/ports/model.ts';
import { collect, fakeClock, fakeLog, request, textIn } from '../fakes/models.ts';

const RETRY: RetrySettings = { attempts: 3, base_ms: 500, max_ms: 60_000 };

const error = (kind: ModelErrorKind, more: Partial<ModelError> = {}): ModelError => ({
  kind,
  message: `${kind} happened`,
  retryable: ['rate_limit', 'overloaded', 'network'].includes(kind),
  ...more,
});

type Attempt = string | { partial?: string; fail: ModelError };

/** Plays its attempts in order, the last one for good; remembers the keys it was called with. */
function scripted(name: string, ...attempts: Attempt[]): ModelClient & { calls: (string | undefined)[] } {
  const calls: (string | undefined)[] = [];
  async function* stream({ apiKey }: { apiKey?: string }, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const attempt = attempts[Math.min(calls.length, attempts.length - 1)] ?? '';
    calls.push(apiKey);
    await Promise.resolve();
    const text = typeof attempt === 'string' ? attempt : (attempt.partial ?? '');
    const content = text ? [{ type: 'text' as const, text }] : [];
    if (signal.aborted) {
      yield { type: 'failed', stop: 'aborted', content: [], model: name };
      return;
    }
    if (text) yield { type: 'text', delta: text };
    if (typeof attempt === 'string') yield { type: 'done', content, stop: 'stop', model: name };
    else yield { type: 'failed', stop: 'error', error: attempt.fail, content, model: name };
  }
  return { name, contextWindow: 1_000, maxOutputTokens: 100, images: true, calls, stream };
}

function failover(clients: [ModelClient, ...ModelClient[]], retry: Partial<RetrySettings> = {}) {
  const clock = fakeClock();
  const log = fakeLog();
  const client = createFailover(clients, {
    retry: () => ({ ...RETRY, ...retry }),
    clock,
    log,
    random: () => 1,
  });
  return { client, clock, log };
}

describe('retries', () => {
  it.each<ModelErrorKind>(['rate_limit', 'overloaded', 'network'])(
    '%s is tried again, later each time',
    async (kind) => {
      const model = scripted(
        'a',
        { fail: error(kind) },
        { fail: error(kind) },
        { fail: error(kind) },
        'hello',
      );
      const { client, clock } = failover([model]);
      const { end } = await collect(client);
      expect(textIn(end)).toBe('hello');
      expect(clock.waits).toEqual([500, 1_000, 2_000]);
    },
  );

  it('three times, then the failure is the answer', async () => {
    const model = scripted('a', { fail: error('overloaded') });
    const { client, log } = failover([model]);
    const { end } = await collect(client);
    expect(end).toMatchObject({ type: 'failed', error: { kind: 'overloaded' } });
    expect(model.calls).toHaveLength(4);
    expect(log.lines.at(-1)).toMatchObject({ level: 'error', fields: { model: 'a', kind: 'overloaded' } });
  });

  it.each<ModelErrorKind>(['auth', 'quota', 'invalid', 'refused', 'overflow'])('%s is not', async (kind) => {
    const model = scripted('a', { fail: error(kind) }, 'hello');
    const { client, clock } = failover([model]);
    expect((await collect(client)).end).toMatchObject({ error: { kind } });
    expect(clock.waits).toEqual([]);
  });

  it('waits as long as the vendor asks, but no longer than the cap', async () => {
    const model = scripted(
      'a',
      { fail: error('rate_limit', { retryAfterMs: 7_000 }) },
      { fail: error('rate_limit', { retryAfterMs: 600_000 }) },
      { fail: error('rate_limit', { retryAfterMs: 1 }) },
      'hello',
    );
    const { client, clock } = failover([model]);
    await collect(client);
    expect(clock.waits).toEqual([7_000, 60_000, 2_000]);
  });

  it('jitters between half and all of the back-off', async () => {
    const clock = fakeClock();
    const client = createFailover([scripted('a', { fail: error('network') })], {
      retry: () => RETRY,
      clock,
      log: fakeLog(),
      random: () => 0,
    });
    await collect(client);
    expect(clock.waits).toEqual([250, 500, 1_000]);
  });

  it('takes back what was shown before it tries again', async () => {
    const model = scripted('a', { partial: 'Hello ', fail: error('network') }, 'Hello world');
    const { client } = failover([model]);
    const { events, text, end } = await collect(client);
    expect(events.map((event) => event.type)).toEqual(['text', 'reset', 'text', 'done']);
    expect(text).toBe('Hello world');
    expect(textIn(end)).toBe('Hello world');
  });

  it('takes nothing back when nothing was shown, nor when it gives up', async () => {
    const { client } = failover([
      scripted('a', { fail: error('network') }, { partial: 'Hel', fail: error('auth') }),
    ]);
    const { events, end } = await collect(client);
    expect(events.map((event) => event.type)).toEqual(['text', 'failed']);
    expect(textIn(end)).toBe('Hel');
  });

  it('reads the settings at each call', async () => {
    let attempts = 0;
    const model = scripted('a', { fail: error('network') });
    const client = createFailover([model], {
      retry: () => ({ ...RETRY, attempts }),
      clock: fakeClock(),
      log: fakeLog(),
    });
    await collect(client);
    expect(model.calls).toHaveLength(1);
    attempts = 2;
    await collect(client);
    expect(model.calls).toHaveLength(4);
  });
});

describe('abort', () => {
  it('in the back-off', async () => {
    const model = scripted('a', { partial: 'Hel', fail: error('overloaded') });
    const controller = new AbortController();
    const client = createFailover([model], {
      retry: () => RETRY,
      clock: {
        now: () => 0,
        sleep: (_, signal) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(new Error('aborted')));
            controller.abort();
          }),
      },
      log: fakeLog(),
    });
    const { end } = await collect(client, request(), controller.signal);
    expect(end).toMatchObject({ type: 'failed', stop: 'aborted', content: [{ type: 'text', text: 'Hel' }] });
    expect(end).not.toHaveProperty('error');
    expect(model.calls).toHaveLength(1);
  });

  it('is not retried', async () => {
    const model = scripted('a', 'hello');
    const { client } = failover([model, scripted('b', 'hello')]);
    expect((await collect(client, request(), AbortSignal.abort())).end).toMatchObject({ stop: 'aborted' });
    expect(model.calls).toHaveLength(1);
  });
});

describe('fallbacks', () => {
  it('the next model after the last retry', async () => {
    const first = scripted('a', { partial: 'Hel', fail: error('overloaded') });
    const second = scripted('b', 'hello');
    const { client } = failover([first, second]);
    const { text, end } = await collect(client);
    expect({ text, model: end.model }).toEqual({ text: 'hello', model: 'b' });
    expect(first.calls).toHaveLength(4);
  });

  it.each<ModelErrorKind>(['auth', 'quota', 'invalid'])('%s goes on at once', async (kind) => {
    const first = scripted('a', { fail: error(kind) });
    const { client, clock } = failover([first, scripted('b', 'hello')]);
    expect((await collect(client)).end).toMatchObject({ type: 'done', model: 'b' });
    expect(first.calls).toHaveLength(1);
    expect(clock.waits).toEqual([]);
  });

  it.each<ModelErrorKind>(['overflow', 'refused'])('%s is for the agent to deal with', async (kind) => {
    const second = scripted('b', 'hello');
    const { client } = failover([scripted('a', { fail: error(kind) }), second]);
    expect((await collect(client)).end).toMatchObject({ type: 'failed', error: { kind } });
    expect(second.calls).toHaveLength(0);
  });

  it("reports the first model's reason when the stand-in is too small", async () => {
    const { client } = failover([
      scripted('a', { fail: error('auth') }),
      scripted('b', { fail: error('overflow') }),
    ]);
    expect((await collect(client)).end).toMatchObject({ type: 'failed', error: { kind: 'auth' } });
  });

  it('a key given with the request goes to the first model only', async () => {
    const first = scripted('a', { fail: error('auth') });
    const second = scripted('b', 'hello');
    const { client } = failover([first, second]);
    await collect(client, request({ apiKey: 'mine' }));
    expect([first.calls, second.calls]).toEqual([['mine'], [undefined]]);
  });

  it('a model that just failed is passed over until it has cooled down', async () => {
    const first = scripted('a', { fail: error('auth') }, 'back again');
    const second = scripted('b', 'hello');
    const { client, clock } = failover([first, second]);
    await collect(client);
    expect((await collect(client)).end.model).toBe('b');
    expect(first.calls).toHaveLength(1);
    clock.advance(60_001);
    expect((await collect(client)).end.model).toBe('a');
  });

  it('a cooling model is still better than none', async () => {
    const first = scripted('a', { fail: error('auth') }, 'hello');
    const second = scripted('b', { fail: error('auth') });
    const { client } = failover([first, second]);
    await collect(client);
    expect((await collect(client)).end).toMatchObject({ type: 'done', model: 'a' });
  });

  it('has the name and the sizes of the first', () => {
    const { client } = failover([scripted('a'), { ...scripted('b'), contextWindow: 5 }]);
    expect(client).toMatchObject({ name: 'a', contextWindow: 1_000, maxOutputTokens: 100, images: true });
  });
});

describe('keys', () => {
  const keyed = (model: ModelClient) => {
    const clock = fakeClock();
    const log = fakeLog();
    return { client: createKeyed(model, ['one', 'two', 'three'], { clock, log }), clock, log };
  };

  it.each<ModelErrorKind>(['rate_limit', 'auth', 'quota'])(
    '%s: the next key at once, and it stays',
    async (kind) => {
      const model = scripted('a', { fail: error(kind) }, 'hello');
      const { client, log } = keyed(model);
      expect((await collect(client)).end.type).toBe('done');
      await collect(client);
      expect(model.calls).toEqual(['one', 'two', 'two']);
      expect(JSON.stringify(log.lines)).not.toMatch(/"(?:one|two|three)"/);
    },
  );

  it('overload is not the fault of a key', async () => {
    const model = scripted('a', { fail: error('overloaded') }, 'hello');
    const { client } = keyed(model);
    expect((await collect(client)).end.type).toBe('failed');
    await collect(client);
    expect(model.calls).toEqual(['one', 'one']);
  });

  it('a rested key is used again', async () => {
    const model = scripted(
      'a',
      { fail: error('rate_limit', { retryAfterMs: 1_000 }) },
      { fail: error('quota') },
      { fail: error('quota') },
      'hello',
    );
    const { client, clock } = keyed(model);
    expect((await collect(client)).end.type).toBe('failed');
    clock.advance(1_001);
    expect((await collect(client)).end.type).toBe('done');
    expect(model.calls).toEqual(['one', 'two', 'three', 'one']);
  });

  it('when all rest, the one that is back first is asked', async () => {
    const model = scripted(
      'a',
      { fail: error('quota') },
      { fail: error('rate_limit') },
      { fail: error('auth') },
      'hello',
    );
    const { client } = keyed(model);
    await collect(client);
    await collect(client);
    expect(model.calls).toEqual(['one', 'two', 'three', 'two']);
  });

  it('after partial output the failure is passed on, and the next attempt takes another key', async () => {
    const model = scripted('a', { partial: 'Hel', fail: error('rate_limit') }, 'Hello');
    const { client } = keyed(model);
    const whole = createFailover([client], { retry: () => RETRY, clock: fakeClock(), log: fakeLog() });
    const { events, text } = await collect(whole);
    expect(events.map((event) => event.type)).toEqual(['text', 'reset', 'text', 'done']);
    expect(text).toBe('Hello');
    expect(model.calls).toEqual(['one', 'two']);
  });

  it("the request's own key is used as it is", async () => {
    const model = scripted('a', { fail: error('auth') });
    const { client } = keyed(model);
    await collect(client, request({ apiKey: 'mine' }));
    expect(model.calls).toEqual(['mine']);
  });
});
