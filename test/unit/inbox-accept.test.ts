// accept on a real SQLite file: what becomes a message, what is a command, what is ignored, and what is woken.
import { beforeEach, describe, expect, test } from 'vitest';
import { parseCommand } from '../../src/inbox/commands.ts';
import type { ChannelMessage } from '../../src/ports/channel.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { acceptOn, type AcceptOn } from '../fakes/accept.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { openTestStorage } from '../fakes/storage.ts';

const { later } = useCleanups();
let storage: Storage;
beforeEach(async () => {
  storage = await openTestStorage(later);
});

const acceptWith = (more: AcceptOn = {}) => acceptOn(storage, more);

const incoming = (more: Partial<ChannelMessage> = {}): ChannelMessage => ({
  id: 'm1',
  chat: 'c1',
  sender: { id: 'u1' },
  text: 'hello',
  ...more,
});
const take = async (conversation = 'acc:c1') => {
  const claim = await storage.store.claim(conversation, { run: 'r', leaseMs: 10_000, limit: 10 });
  if (claim.status !== 'claimed') throw new Error(claim.status);
  return claim;
};

describe('messages', () => {
  test('are durable and woken when accepted; a redelivery is a duplicate', async () => {
    const woken: string[] = [];
    await storage.lanes.work(
      (conversation) => {
        woken.push(conversation);
        return Promise.resolve('idle');
      },
      { concurrency: 1 },
    );
    const { accept, counts } = acceptWith();
    const answer = { id: 'm1', conversation: 'acc:c1' };
    expect(await accept('acc', incoming())).toEqual({ status: 'queued', ...answer });
    expect(await accept('acc', incoming())).toEqual({ status: 'duplicate', ...answer });
    expect(counts).toEqual(['acc queued', 'acc duplicate']);
    await expect.poll(() => woken.length).toBeGreaterThan(0);
    const { snapshot } = await take();
    expect(snapshot.inbox).toMatchObject([{ id: 'm1', account: 'acc', text: 'hello', busy: 'steer' }]);
    await storage.lanes.close(1_000);
  });

  test.each([
    { what: 'direct', more: {}, busy: 'steer' },
    { what: 'group, mentioned', more: { group: true, mentioned: true }, busy: 'followup' },
  ])('$what: busy mode $busy', async ({ more, busy }) => {
    const { accept } = acceptWith();
    await accept('acc', incoming(more));
    expect((await take()).snapshot.inbox[0]?.busy).toBe(busy);
  });

  test('in a group that do not mention the bot are ignored', async () => {
    const { accept } = acceptWith();
    expect(await accept('acc', incoming({ group: true }))).toMatchObject({ status: 'ignored' });
    expect((await storage.reader.state('acc:c1')).pending).toBe(0);
  });

  test('in a thread have a conversation of their own', async () => {
    const { accept } = acceptWith();
    const accepted = await accept('acc', incoming({ thread: 't 1' }));
    expect(accepted).toMatchObject({ conversation: 'acc:c1:t 1' });
  });

  test('while draining are refused, so that the platform sends them again', async () => {
    const { accept, counts } = acceptWith({ draining: true });
    await expect(accept('acc', incoming())).rejects.toMatchObject({ code: 'draining' });
    expect(counts).toEqual(['acc failed']);
  });

  test('whose wake fails are accepted all the same', async () => {
    const lanes = { ...storage.lanes, wake: () => Promise.reject(new Error('queue away')) };
    const { accept, lines } = acceptWith({ storage: { lanes } });
    expect(await accept('acc', incoming())).toMatchObject({ status: 'queued' });
    expect(lines).toMatchObject([{ level: 'warn', fields: { conversation: 'acc:c1' } }]);
    expect((await storage.reader.state('acc:c1')).pending).toBe(1);
  });
});

describe('interrupt', () => {
  const agent = { on_busy: { direct: 'interrupt' } };

  test('cancels the active run before the new message is there to be taken by it', async () => {
    const { accept } = acceptWith({ agent });
    await accept('acc', incoming({ id: 'a' }));
    const { lease } = await take();
    await accept('acc', incoming({ id: 'b' }));
    expect(await storage.store.renew(lease, 10_000)).toEqual({ cancelled: true });
    expect(await storage.reader.state('acc:c1')).toMatchObject({ pending: 2 });
  });

  test('a redelivery of the message that is being answered cancels nothing', async () => {
    const { accept } = acceptWith({ agent });
    await accept('acc', incoming({ id: 'a' }));
    const { lease } = await take();
    expect(await accept('acc', incoming({ id: 'a' }))).toMatchObject({ status: 'duplicate' });
    expect(await storage.store.renew(lease, 10_000)).toEqual({ cancelled: false });
  });
});

describe('commands', () => {
  test.each([
    ['/new', { name: 'new' }],
    ['  /NEW ', { name: 'new' }],
    ['／help', { name: 'help' }],
    ['/stop', { name: 'stop' }],
    ['/status', { name: 'status' }],
    ['/model', { name: 'model' }],
    ['/model Big-1', { name: 'model', argument: 'Big-1' }],
    ['/approve ABCD2345 ', { name: 'approve', argument: 'ABCD2345' }],
    ['/approve that, please', undefined],
    ['/new york', undefined],
    ['/new york is a city', undefined],
    ['/unknown', undefined],
    ['what does /new do', undefined],
  ])('%s → %o', (text, command) => expect(parseCommand(text)).toEqual(command));

  test("never wait in the lane, and answer in the conversation's language", async () => {
    const { accept } = acceptWith();
    await accept('acc', incoming({ text: 'please help me with this' }));
    const { lease } = await take();
    expect(await accept('acc', incoming({ id: 'x', text: '/stop' }))).toMatchObject({ status: 'command' });
    expect(await storage.store.renew(lease, 10_000)).toEqual({ cancelled: true });
    const content = [{ type: 'text' as const, text: 'please help me with this' }];
    await storage.store.commit(lease, {
      entries: [{ role: 'user', content, at: 1, run: 'r', id: 'm1' }],
      deliveries: [],
      outcome: { status: 'done', reply: { text: 'cancelled' } },
    });
    const status = await accept('acc', incoming({ id: 'y', text: '/status' }));
    expect(status).toMatchObject({ reply: expect.stringMatching(/\b1\b/) });
    expect(await accept('acc', incoming({ id: 'z', text: '/new' }))).toMatchObject({
      reply: expect.stringMatching(/start over/),
    });
    expect((await storage.reader.state('acc:c1')).length).toBe(0);
    expect(await accept('acc', incoming({ id: 'q', text: '/stop' }))).toMatchObject({ status: 'command' });
  });
});
