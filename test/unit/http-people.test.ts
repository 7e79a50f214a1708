// Groups and commands through the webhook: the conversation that an answer names is the one where the message is.
import { afterEach, expect, test } from 'vitest';
import { dayOf } from '../../src/domain/day.ts';
import { KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

let http: HttpApp | undefined;
afterEach(async () => {
  await http?.close();
  http = undefined;
});

async function post(id: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${http?.url}/webhook/webhook`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      'idempotency-key': id,
      ...headers,
    },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Record<string, unknown>;
}

const start = async (channel: object) => {
  http = await startHttpApp({ channels: { webhook: { type: 'webhook', api_keys: [KEY], ...channel } } });
};

test.each([
  { scope: 'sender', conversation: 'webhook:c1:ann' },
  { scope: 'chat', conversation: 'webhook:c1' },
])(
  'scope $scope: a waiting caller is answered from the conversation $conversation',
  async ({ scope, conversation }) => {
    await start({ group: { scope, trigger: 'always' } });
    const body = { conversation: 'c1', text: 'hello', group: true, sender: { id: 'ann' } };
    expect(await post('m1', body, { prefer: 'wait=20' })).toMatchObject({
      conversation,
      status: 'done',
      reply: { text: 'You said: hello' },
    });
    const status = await fetch(`${http?.url}/webhook/webhook/messages/m1`, {
      headers: { authorization: `Bearer ${KEY}` },
    });
    expect(await status.json()).toMatchObject({ conversation, status: 'done' });
  },
);

test('a command that comes again has the same answer and is carried out once', async () => {
  await start({});
  await post('m1', { conversation: 'c1', text: 'hello there, how are you' }, { prefer: 'wait=20' });
  const first = await post('k1', { conversation: 'c1', text: '/new' });
  expect(first).toMatchObject({ status: 'done', reply: { text: expect.stringMatching(/start over/) } });
  await post('m2', { conversation: 'c1', text: 'hello again' }, { prefer: 'wait=20' });
  expect(await post('k1', { conversation: 'c1', text: '/new' })).toEqual(first);
  expect((await http!.storage.reader.state('webhook:c1')).length).toBe(1);
});

test('a sender that says that it is a bot is held to max_bot_turns, those that wait included', async () => {
  await start({ group: { max_bot_turns: 1 } });
  const bot = { conversation: 'c1', text: 'beep', sender: { id: 'robot', bot: true } };
  expect(await post('m1', bot, { prefer: 'wait=20' })).toMatchObject({ status: 'done' });
  const held = { ...bot, text: 'hold on' };
  await post('m2', held);
  expect(await post('m3', bot)).toMatchObject({ status: 'ignored' });
  expect(await post('m4', { ...bot, sender: { id: 'ann' } })).toMatchObject({ status: 'queued' });
  http!.release();
});

test('a day begins at midnight in its zone', () => {
  const at = Date.UTC(2026, 10, 30, 16, 30);
  expect(dayOf(at, 'UTC')).toBe('2026-11-30');
  expect(dayOf(at, 'Asia/Shanghai')).toBe('2026-12-01');
  expect(dayOf(at, 'America/New_York')).toBe('2026-11-30');
});
