// Parts of the WeChat channel without a child process: what the server believes of what the child says, addresses, what is sent
// as words, and what the doctor says.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { missing, WECHATY } from '../../channels/wechat/account.ts';
import { checkAccount } from '../../channels/wechat/check.ts';
import { readFromChild, type Handed } from '../../channels/wechat/ipc.ts';
import { addressOf, readAddress, targetOf, toMessage } from '../../channels/wechat/parse.ts';
import { partsOf } from '../../channels/wechat/render.ts';
import { createTroubles } from '../../channels/wechat/trouble.ts';
import { recordingLog } from '../fakes/log.ts';

const handed: Handed = {
  id: 'm1',
  at: 1_700_000_000_000,
  self: 'wxid_bot',
  chat: { id: 'tea@chatroom', name: 'Tea' },
  group: true,
  sender: { id: 'wxid_ada', name: 'Ada' },
  mentioned: true,
  text: 'hi',
  files: [{ kind: 'image', name: 'a.png', bytes: Buffer.from('x') }],
  notes: ['(a place)'],
};

describe('what the child says', () => {
  const good = [
    { type: 'up' },
    { type: 'scan', state: 'waiting', qr: 'http://weixin.qq.com/x/1' },
    { type: 'login', id: 'wxid_bot', name: '' },
    { type: 'logout', reason: '' },
    { type: 'heartbeat' },
    { type: 'message', serial: 1, message: handed },
    { type: 'recalled', id: 'm1' },
    { type: 'outcome', serial: 1, outcome: 'gone', reason: 'nobody' },
    { type: 'trouble', reason: 'x' },
    { type: 'fatal', cause: 'broken', reason: 'x' },
    { type: 'pong' },
  ];

  test.each(good)('is taken as it is: $type', (message) => {
    expect(readFromChild(message)).toEqual(message);
  });

  test.each([
    { type: 'login', id: '' },
    { type: 'login', id: 7, name: 'x' },
    { type: 'message', serial: -1, message: handed },
    {
      type: 'message',
      serial: 1,
      message: { ...handed, files: Array.from({ length: 11 }, () => handed.files[0]) },
    },
    {
      type: 'message',
      serial: 1,
      message: { ...handed, files: [{ kind: 'image', name: 'x', bytes: '/etc/passwd' }] },
    },
    { type: 'message', serial: 1, message: { ...handed, id: 'x'.repeat(257) } },
    { type: 'message', serial: 1, message: { ...handed, at: Number.NaN } },
    { type: 'outcome', serial: 1, outcome: 'done', reason: '' },
    { type: 'scan', state: 'waiting', qr: 'x'.repeat(5_000) },
    { cmd: 'NODE_HANDLE' },
  ])('is dropped if it has another shape: %j', (message) => {
    expect(readFromChild(message)).toBeUndefined();
  });

  test('is never more than what it says: any value, and any good one with a part of it changed', () => {
    const types = new Set(good.map(({ type }) => type));
    const odd = fc.oneof(
      fc.anything({ withBigInt: true, withDate: true, withMap: true, withTypedArray: true }),
      fc.constantFrom(...good),
    );
    fc.assert(
      fc.property(odd, fc.array(fc.string(), { maxLength: 3 }), fc.anything(), (base, path, value) => {
        const read = readFromChild(changed(base, path, value));
        if (read) expect(types.has(read.type)).toBe(true);
      }),
      { numRuns: 500 },
    );
    const places = Object.keys(handed).map((key) => [key]);
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.anything(), (path, value) => {
        const read = readFromChild({ type: 'message', serial: 1, message: changed(handed, path, value) });
        if (read?.type !== 'message') return;
        // Whatever it is, the rest of the channel can work with it.
        const message = toMessage(read.message, [], []);
        expect(
          readAddress(JSON.parse(JSON.stringify(addressOf(read.message))) as Record<string, unknown>),
        ).toBeDefined();
        expect(message.chat.length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });
});

function changed(base: unknown, path: readonly string[], value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined || typeof base !== 'object' || base === null) return value;
  return {
    ...base,
    [key]: rest.length > 0 ? changed((base as Record<string, unknown>)[key], rest, value) : value,
  };
}

test('an address survives the outbox, and another channel’s is none', () => {
  const address = addressOf(handed);
  expect(readAddress(JSON.parse(JSON.stringify(address)) as Record<string, unknown>)).toEqual(address);
  expect(targetOf(address)).toEqual({ chat: 'tea@chatroom', group: true, name: 'Tea', self: 'wxid_bot' });
  expect(readAddress({ chat: 'oc_1', message: 'om_1', group: true, thread: false })).toBeUndefined();
});

test('answers to people of one chat share one delivery when they share a run', () => {
  const keys = [handed, { ...handed, sender: { id: 'wxid_bob', name: 'Bob' } }].map(
    (one) => toMessage(one, [], []).replyTo?.key,
  );
  expect(new Set(keys).size).toBe(1);
});

test('answers are words in parts of 2,000 characters', () => {
  expect(partsOf('')).toEqual([]);
  expect(partsOf('# A\n\n- **b**\n- `c`')).toEqual(['A\n\n• b\n• c']);
  const parts = partsOf(`${'字'.repeat(3_000)}\n\n${'x'.repeat(3_000)}`);
  for (const part of parts) expect(part.length).toBeLessThanOrEqual(2_000);
  expect(parts.join('').replaceAll(/\s/g, '')).toBe('字'.repeat(3_000) + 'x'.repeat(3_000));
});

test('the same trouble is told once a minute; a puppet that is in trouble all the time is given up', () => {
  const { log, lines } = recordingLog();
  let at = 0;
  const troubles = createTroubles(log, () => at);
  const times = (count: number, reason: string) =>
    Array.from({ length: count }, () => troubles.note(reason)).at(-1);
  expect(times(59, 'no network')).toBe(false);
  expect(troubles.note('something else')).toBe(false);
  expect(lines.map(({ fields }) => fields)).toEqual([{ reason: 'no network' }, { reason: 'something else' }]);
  expect(troubles.note('no network')).toBe(true);
  at = 60_001;
  expect(troubles.note('no network')).toBe(false);
  expect(lines.slice(2).map(({ fields }) => fields)).toEqual([{ times: 61 }, { reason: 'no network' }]);
});

describe('the doctor', () => {
  test('says what is missing', () => {
    // What stands in for it among wechaty's packages is not it.
    expect(checkAccount({ puppet: 'wechaty-puppet-wechat4u' })).toEqual([
      {
        state: 'wrong',
        text: `the puppet wechaty-puppet-wechat4u is not installed: npm install --save-prod ${WECHATY} wechaty-puppet-wechat4u`,
      },
    ]);
    expect(checkAccount({ puppet: './no-such-puppet.js' })).toMatchObject([{ state: 'wrong' }]);
    expect(checkAccount({ puppet: 'no such package' })).toMatchObject([{ state: 'wrong' }]);
  });

  test('names the version that is tried here', async () => {
    const { default: manifest } = await import('../../package.json', { with: { type: 'json' } });
    expect(WECHATY).toBe(`wechaty@${manifest.devDependencies.wechaty}`);
    // A puppet of one's own is no package.
    expect(missing('wechaty', './puppet.ts')).toBe(
      `wechaty is not installed: npm install --save-prod ${WECHATY}`,
    );
  });

  test('says what to expect of a puppet that is there', () => {
    expect(checkAccount({ puppet: 'wechaty-puppet-mock' })).toMatchObject([
      { state: 'ok' },
      { state: 'note' },
    ]);
    expect(checkAccount({ puppet: import.meta.filename })).toMatchObject([{ state: 'ok' }]);
  });
});
