// The platform's refusals, each through the unmodified SDK: what becomes of a delivery, of the app's other requests, of its token.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { CODES } from '../../channels/feishu/client/codes.ts';
import { createHttp } from '../../channels/feishu/client/http.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { delivery, never, startFeishu } from '../fakes/feishu-rig.ts';
import { messageEvent, startFeishuServer, type Failure } from '../fakes/feishu-server.ts';

const { later } = useCleanups();

const TABLE: [what: string, failure: Failure, status: string, hint?: string][] = [
  ['rate limit of the chat', { code: 230020 }, 'retry'],
  ['rate limit of the tenant', { code: 11232 }, 'retry'],
  ['rate limit of the app', { status: 400, code: 99991400 }, 'retry'],
  ['HTTP 429 without a code that is known', { status: 429, code: 1 }, 'retry'],
  ['trouble on their side', { status: 502, code: 1 }, 'retry'],
  ['trouble on their side, told by code', { code: 1000005 }, 'retry'],
  ['the message was taken back', { code: 230011 }, 'drop'],
  ['the message was deleted', { code: 231003 }, 'drop'],
  ['a scope is missing', { status: 400, code: 99991672 }, 'park', 'grant the scope'],
  ['the bot is not in the chat', { code: 230002 }, 'park', 'add the bot to the chat'],
  ['a code that nobody knows', { code: 424242 }, 'park'],
  ['a page instead of an answer', { status: 403, code: 0 }, 'park'],
];

describe('a delivery that is refused', () => {
  test('is retried, parked or dropped, as the code says', async () => {
    const server = await startFeishuServer();
    later(() => server.close());
    for (const [what, failure, status, hint = ''] of TABLE) {
      // Another app for each, so that none waits for what the one before was told.
      const { channel } = await startFeishu(later, { server });
      server.fail('POST', /reply$/, failure);
      const result = await channel.deliver(delivery('hello'), never);
      expect(result, what).toMatchObject({ status, error: expect.stringContaining(hint) as string });
    }
  });

  test('a token that is refused is replaced, and the delivery sent', async () => {
    for (const code of [99991663, 99991668, 99991677]) {
      const { channel, server } = await startFeishu(later);
      server.fail('POST', /reply$/, { status: 400, code });
      expect(await channel.deliver(delivery('hello'), never), String(code)).toEqual({ status: 'sent' });
      expect(server.tokenRequests()).toBe(2);
      // One that stays bad is not asked for again and again.
      server.fail('POST', /reply$/, { status: 400, code, times: 2 });
      const result = await channel.deliver(delivery('hello', { id: 'r.1' }), never);
      expect(result).toMatchObject({
        status: 'retry',
        error: expect.stringContaining('app_secret') as string,
      });
      expect(server.tokenRequests()).toBe(3);
    }
  });

  test('without good credentials it waits, and its attempts are not counted', async () => {
    const { channel, server } = await startFeishu(later, { settings: { app_secret: 'a-wrong-secret' } });
    const result = await channel.deliver(delivery('hello'), never);
    expect(result).toMatchObject({ status: 'wait', error: expect.stringContaining('app_secret') as string });
    expect(JSON.stringify(result)).not.toContain('a-wrong-secret');
    expect(server.messages).toEqual([]);
  });

  test('formatted, it is sent in plain words', async () => {
    for (const code of [230001, 230025, 230099, 11310]) {
      const { channel, server } = await startFeishu(later);
      server.fail('POST', /reply$/, { code });
      expect(await channel.deliver(delivery('# hello'), never)).toEqual({ status: 'sent' });
      expect(server.messages).toMatchObject([{ type: 'text' }]);
    }
  });

  test('every code is in the operator’s table, in the row of what becomes of it', async () => {
    const readme = await readFile(join(import.meta.dirname, '../../channels/feishu/README.md'), 'utf8');
    for (const [code, kind] of Object.entries(CODES)) {
      const row = readme.split('\n').find((line) => line.startsWith(`| ${kind} `));
      expect(row, kind).toContain(code);
    }
  });
});

describe('the app’s rate limit', () => {
  test('after a 429 the whole app waits as long as it was told', async () => {
    const { server, channel } = await startFeishu(later);
    server.fail('POST', /reply$/, { status: 429, code: 99991400, headers: { 'retry-after': '7' } });
    expect(await channel.deliver(delivery('a'), never)).toMatchObject({ status: 'retry', afterMs: 7_000 });
    const calls = server.calls.length;
    const second = await channel.deliver(delivery('b', { id: 'r.9' }), never);
    expect(second).toMatchObject({ status: 'retry' });
    expect((second as { afterMs: number }).afterMs).toBeGreaterThan(5_000);
    expect(server.calls.length).toBe(calls);
  });

  test('one app’s limit is not another’s', async () => {
    const one = await startFeishu(later);
    const two = await startFeishu(later, { server: one.server });
    one.server.fail('POST', /reply$/, { status: 429, code: 99991400, headers: { 'retry-after': '7' } });
    expect(await one.channel.deliver(delivery('a'), never)).toMatchObject({ status: 'retry' });
    expect(await two.channel.deliver(delivery('a'), never)).toEqual({ status: 'sent' });
  });

  test('one chat’s limit is not the app’s: its delivery backs off by itself', async () => {
    const { server, channel } = await startFeishu(later);
    server.fail('POST', /reply$/, { code: 230020 });
    const result = await channel.deliver(delivery('a'), never);
    expect(result).toMatchObject({ status: 'retry' });
    expect(result).not.toHaveProperty('afterMs');
    expect(await channel.deliver(delivery('b', { id: 'r.9' }), never)).toEqual({ status: 'sent' });
  });

  test('without a time, the wait doubles until a request succeeds', async () => {
    const server = await startFeishuServer();
    later(() => server.close());
    let nowMs = 0;
    const http = createHttp({ timeoutMs: 5_000, signal: never, now: () => nowMs });
    const request = { url: `${server.url}/open-apis/bot/v3/info`, method: 'GET' };
    const waits: number[] = [];
    const asked = async (failure: Failure) => {
      server.fail('GET', /bot/, failure);
      await http.json(request).catch(() => undefined);
      waits.push(http.pausedMs());
      nowMs += http.pausedMs();
    };
    for (let time = 0; time < 8; time++) await asked({ status: 429 });
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    // Another refusal doesn't shorten it; success does.
    await asked({ code: 230011 });
    await asked({ status: 429 });
    await asked({ code: 0 });
    await asked({ status: 429, headers: { 'retry-after': '3' } });
    await asked({ status: 429 });
    expect(waits.slice(8)).toEqual([0, 60_000, 0, 3_000, 2_000]);
  });
});

describe('the token', () => {
  test('is asked for once by many calls at once, and once again when it turned bad', async () => {
    const { server, channel } = await startFeishu(later);
    const send = (round: number) =>
      Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          channel.deliver(delivery('hello', { id: `r${round}${n}.0` }), never),
        ),
      );
    await send(1);
    expect(server.messages).toHaveLength(10);
    expect(server.tokenRequests()).toBe(1);
    server.expireTokens();
    await send(2);
    expect(server.messages).toHaveLength(20);
    expect(server.tokenRequests()).toBe(2);
  });

  test('is replaced for files, too', async () => {
    const { server, channel, media, accepted, connect } = await startFeishu(later);
    const { ref } = await media.put({ bytes: Buffer.from('%PDF-1.4'), name: 'report.pdf' });
    await channel.deliver(delivery('one', { id: 'r.0' }), never);
    server.expireTokens();
    const attachments = [{ type: 'file' as const, ref, name: 'report.pdf' }];
    expect(
      await channel.deliver(delivery('', { id: 'r.1', reply: { text: '', attachments } }), never),
    ).toEqual({
      status: 'sent',
    });
    server.files.set('file_1', Buffer.from('%PDF-1.4'));
    await connect();
    server.expireTokens();
    await server.push(messageEvent({ type: 'file', content: { file_key: 'file_1', file_name: 'a.pdf' } }));
    await vi.waitFor(() => expect(accepted[0]?.attachments).toHaveLength(1));
  });
});
