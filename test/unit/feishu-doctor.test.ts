// What `npm run doctor` says of a Feishu account: credentials, scopes, event subscriptions.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { NEEDED } from '../../channels/feishu/check.ts';
import { configSchema } from '../../config/schema.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startFeishu } from '../fakes/feishu-rig.ts';
import type { FeishuServer } from '../fakes/feishu-server.ts';

const { later } = useCleanups();

const MESSAGES = ['im:message.p2p_msg:readonly', 'im:message.group_at_msg:readonly', 'im:message'];
const EVENTS = ['im.message.receive_v1', 'im.message.recalled_v1'];

async function told(prepare: (server: FeishuServer) => void, settings = {}) {
  const { server, channel } = await startFeishu(later, { settings });
  prepare(server);
  return (await channel.check?.()) ?? [];
}

const grant = (server: FeishuServer, ...scopes: string[]) => {
  for (const scope of scopes) server.scopes.add(scope);
};

describe('the doctor', () => {
  test('is told which scopes are missing', async () => {
    const all = await told((server) =>
      grant(server, 'im:message.p2p_msg:readonly', 'im:message', 'im:resource'),
    );
    const missing = all.filter(({ state }) => state === 'wrong').map(({ text }) => text);
    expect(missing).toEqual([expect.stringContaining('im:message.group_at_msg:readonly')]);
    expect(all.some(({ text }) => text.includes('cardkit:card:write'))).toBe(true);
  });

  test('is told that the credentials are wrong', async () => {
    const all = await told(() => {}, { app_secret: 'a-wrong-secret' });
    expect(all).toMatchObject([{ state: 'wrong' }]);
    expect(JSON.stringify(all)).not.toContain('a-wrong-secret');
  });

  test('is told which event subscriptions are missing', async () => {
    const all = await told((server) => {
      grant(server, ...MESSAGES, 'application:application:self_manage');
      server.application.event = {
        subscription_type: 'websocket',
        subscribed_events: ['im.chat.updated_v1'],
      };
    });
    const found = all.filter(({ text }) => text.includes('subscribed'));
    expect(found.map(({ state, text }) => [state, /im\.message\.\w+/.exec(text)?.[0]])).toEqual([
      ['wrong', EVENTS[0]],
      ['note', EVENTS[1]],
    ]);
  });

  test('is told that events go another way than the account’s mode', async () => {
    const all = await told((server) => {
      grant(server, ...MESSAGES, 'application:application:self_manage');
      server.application.event = { subscription_type: 'webhook', subscribed_events: EVENTS };
    });
    expect(all.filter(({ state }) => state === 'wrong')).toEqual([
      { state: 'wrong', text: expect.stringContaining('by webhook') as string },
    ]);
  });

  test('reads the subscriptions of the newest published version where the app itself has none', async () => {
    const all = await told((server) => {
      grant(server, ...MESSAGES, 'application:application:self_manage');
      server.application.versions = [
        { version: '1.0.2', status: 4, event_infos: [] },
        { version: '1.0.1', status: 1, event_infos: EVENTS.map((event_type) => ({ event_type })) },
        { version: '1.0.0', status: 1, event_infos: [] },
      ];
    });
    expect(all.at(-1)).toEqual({ state: 'ok', text: 'subscribed to the events that are needed' });
  });

  test('is told honestly that the subscriptions are not known', async () => {
    const denied = await told((server) => grant(server, ...MESSAGES));
    const silent = await told((server) => grant(server, ...MESSAGES, 'application:application:self_manage'));
    for (const all of [denied, silent]) {
      const last = all.at(-1);
      expect(last?.state).toBe('note');
      for (const word of ["can't be read", 'application:application:self_manage', ...EVENTS])
        expect(last?.text).toContain(word);
    }
  });
});

test('an app id with which the vendor’s client would silently do nothing is refused', () => {
  for (const app_id of [
    'cli_short',
    'cli_0123456789abcdeg',
    'cli_0123456789abcdef0',
    'app_0123456789abcdef',
  ]) {
    const { error } = configSchema.safeParse({ channels: { team: { type: 'feishu', app_id } } });
    expect(error?.issues[0]?.message, app_id).toContain('16 hexadecimal digits');
  }
});

test('what the operator is told to grant and to subscribe to is what the doctor asks for', async () => {
  const readme = await readFile(join(import.meta.dirname, '../../channels/feishu/README.md'), 'utf8');
  const [, json = ''] = /```json\n(.*?)```/su.exec(readme) ?? [];
  const { scopes } = JSON.parse(json) as { scopes: { tenant: string[] } };
  for (const needed of NEEDED) expect(scopes.tenant).toContain(needed.scopes[0]);
  for (const scope of scopes.tenant)
    expect(readme.slice(readme.indexOf('## Scopes'))).toContain(`\`${scope}\``);
  for (const event of EVENTS) expect(readme).toContain(`\`${event}\``);
});
