// What channels share: Markdown as plain words, QR codes, and one process at a time acting for an account.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { whileHeld } from '../../channels/shared/lease.ts';
import { plainText } from '../../channels/shared/plain.ts';
import { createQrPrinter, qrAsSvg, qrForTerminal } from '../../channels/shared/qr.ts';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';

const { later } = useCleanups();

describe('plain words', () => {
  test.each([
    ['# Plan\n\nHello **you** and _me_, ~~not~~ `a < b`', 'Plan\n\nHello you and me, not a < b'],
    ['a & b < c > d "e" \'f\' &amp; \\*g\\*', 'a & b < c > d "e" \'f\' &amp; *g*'],
    ['see [this](https://example.org/a_b)', 'see this (https://example.org/a_b)'],
    ['<https://example.org> and https://example.com', 'https://example.org and https://example.com'],
    ['![cat](https://example.org/c.png)', 'cat (https://example.org/c.png)'],
    ['- one\n- two\n  - deep\n- three', '• one\n• two\n  • deep\n• three'],
    ['3. c\n4. d', '3. c\n4. d'],
    ['- [x] done\n- [ ] open', '• ☑ done\n• ☐ open'],
    ['- one\n\n- two', '• one\n\n• two'],
    ['> said\n> twice\n\nso', '> said\n> twice\n\nso'],
    ['```ts\nlet a = 1;\n\n  b();\n```\nafter', 'let a = 1;\n\n  b();\n\nafter'],
    ['| a | b |\n|---|---|\n| 1 | **2** |', 'a | b\n1 | 2'],
    ['one\n\n---\n\ntwo', 'one\n\n———\n\ntwo'],
    ['one\ntwo  \nthree', 'one\ntwo\nthree'],
    ['snake_case_name and 2 * 3 * 4', 'snake_case_name and 2 * 3 * 4'],
    ['你好，**世界**。', '你好，世界。'],
    ['<b>bold</b>', '<b>bold</b>'],
    ['', ''],
  ])('%j is read as %j', (markdown, words) => {
    expect(plainText(markdown)).toBe(words);
  });

  test('whatever a model writes, words come out', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (text) => typeof plainText(text) === 'string'));
    expect(plainText(`${'>'.repeat(20_000)} deep`)).toContain('deep');
  });
});

describe('QR codes', () => {
  test('the terminal and the picture have the same modules', () => {
    const rows = qrForTerminal('https://example.org/login').split('\n');
    const light = new Set<string>();
    for (const [y, row] of rows.entries()) {
      for (const [x, character] of row.split('').entries()) {
        if (character === '█' || character === '▀') light.add(`${x},${2 * y}`);
        if (character === '█' || character === '▄') light.add(`${x},${2 * y + 1}`);
      }
    }
    const svg = qrAsSvg('https://example.org/login');
    const size = Number(/viewBox="0 0 (\d+)/.exec(svg)?.[1]) / 10;
    const dark = new Set([...svg.matchAll(/M(\d+),(\d+)h/g)].map(([, x, y]) => `${+x! / 10},${+y! / 10}`));
    expect(dark.size).toBeGreaterThan(100);
    for (let x = 0; x < size; x++)
      for (let y = 0; y < size; y++) expect(light.has(`${x},${y}`)).toBe(!dark.has(`${x},${y}`));
  });

  test('a code is printed once; a row of codes that nobody scans ends', () => {
    const printed: string[] = [];
    const { show } = createQrPrinter('me', (text) => void printed.push(text));
    for (const content of ['a', 'a', 'b', 'c', 'd', 'e']) show(content);
    expect(printed).toHaveLength(3);
    expect(printed[0]).toContain(qrForTerminal('a'));
    expect(printed[0]).toContain('channel me');
    show(undefined);
    show('f');
    expect(printed).toHaveLength(4);
  });
});

describe('acting for an account', () => {
  /** Time that the test moves; the storage's is the same. */
  function time() {
    let now = 0;
    const sleepers = new Set<{ at: number; wake: () => void }>();
    const clock: Clock = {
      now: () => now,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          const sleeper = { at: now + ms, wake: resolve };
          sleepers.add(sleeper);
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
          if (signal.aborted) reject(signal.reason as Error);
        }),
    };
    const settle = () => new Promise((resolve) => void setImmediate(resolve));
    return {
      clock,
      settle,
      async advance(ms: number) {
        for (const end = now + ms; now < end;) {
          now += 10;
          for (const sleeper of sleepers) {
            if (sleeper.at > now) continue;
            sleepers.delete(sleeper);
            sleeper.wake();
          }
          await settle();
        }
      },
    };
  }

  function setUp() {
    const { clock, ...rest } = time();
    const held = { holder: '', until: 0, away: false };
    const state: Pick<ChannelState, 'lease' | 'release'> = {
      async lease(holder, ms) {
        if (held.away) throw new Error('away');
        if (held.holder !== holder && held.until > clock.now()) return false;
        Object.assign(held, { holder, until: clock.now() + ms });
        return true;
      },
      async release(holder) {
        if (held.holder === holder) held.until = 0;
      },
    };
    async function contender() {
      const stop = new AbortController();
      const self = { acting: false, waited: 0, begun: 0, endedAt: 0 };
      const done = whileHeld({
        state,
        leaseMs: 300,
        clock,
        log: silentLog,
        signal: stop.signal,
        async work(signal) {
          self.acting = true;
          self.begun += 1;
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          self.acting = false;
          self.endedAt = clock.now();
        },
        async waiting() {
          self.waited += 1;
        },
      });
      const end = async () => {
        stop.abort();
        await done;
      };
      later(end);
      await rest.settle();
      return { self, end };
    }
    return { ...rest, held, contender };
  }

  test('one acts, another waits, and goes on when the first ends', async () => {
    const { advance, contender } = setUp();
    const first = await contender();
    const second = await contender();
    await advance(1_000);
    // Renewed all the while.
    expect(first.self).toMatchObject({ acting: true, waited: 0, begun: 1 });
    expect(second.self).toMatchObject({ acting: false, begun: 0 });
    expect(second.self.waited).toBeGreaterThan(5);
    await first.end();
    expect(first.self.acting).toBe(false);
    await advance(110);
    expect(second.self.acting).toBe(true);
  });

  test('who loses the lease stops, and takes it again when it is free', async () => {
    const { advance, contender, held } = setUp();
    const { self } = await contender();
    Object.assign(held, { holder: 'another', until: 1_000 });
    await advance(110);
    expect(self.acting).toBe(false);
    await advance(700);
    expect(self.begun).toBe(1);
    await advance(300);
    expect(self).toMatchObject({ acting: true, begun: 2 });
  });

  test('with the storage away it stops before its time is over, and goes on later', async () => {
    const { advance, contender, held } = setUp();
    const { self } = await contender();
    await advance(110);
    const { until } = held;
    held.away = true;
    await advance(1_000);
    expect(self.acting).toBe(false);
    expect(self.endedAt).toBeLessThan(until);
    expect(self.endedAt).toBeGreaterThan(until - 200);
    held.away = false;
    await advance(110);
    expect(self.acting).toBe(true);
  });

  test('work that fails is begun again', async () => {
    const { clock, advance } = time();
    let begun = 0;
    const stop = new AbortController();
    const done = whileHeld({
      state: { lease: async () => true, release: () => Promise.reject(new Error('away')) },
      leaseMs: 300,
      clock,
      log: silentLog,
      signal: stop.signal,
      async work() {
        begun += 1;
        if (begun === 1) throw new TypeError('a slip');
      },
      waiting: async () => {},
    });
    await advance(110);
    expect(begun).toBe(2);
    stop.abort();
    await done;
  });
});
