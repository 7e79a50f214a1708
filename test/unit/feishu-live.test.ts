// A Feishu run as people see it: one message for each answer, whatever fails, whichever process sends what.
import { describe, expect, test } from 'vitest';
import type { LiveRun } from '../../src/ports/channel.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { createMemory, delivery, never, startFeishu } from '../fakes/feishu-rig.ts';

const { later } = useCleanups();

const answer = delivery('One two three.');
const run: LiveRun = {
  id: answer.run,
  conversation: answer.conversation,
  delivery: answer.id,
  messages: answer.messages,
  address: answer.address,
};
const SENT = { status: 'sent' };

/** Two processes of one account: they share what is remembered, and the platform. */
async function twoProcesses() {
  const memory = createMemory();
  const one = await startFeishu(later, { memory });
  const two = await startFeishu(later, { memory, server: one.server });
  return { one: one.channel, two: two.channel, server: one.server };
}

describe('a card that grows', () => {
  test('is finished by the delivery; a delivery again, or an update that comes late, changes nothing', async () => {
    const { one, server } = await twoProcesses();
    await one.live?.update(run, { text: 'One' });
    await one.live?.update(run, { text: 'One', tool: 'search' });
    expect(server.seen('unknown')).toEqual(['One\n\n*search …*']);
    expect(await one.deliver(answer, never)).toEqual(SENT);
    await one.live?.update(run, { text: 'One two' });
    expect(await one.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
    expect(server.cards.size).toBe(1);
  });

  test('is finished by another process, whose words outrun those of the first', async () => {
    const { one, two, server } = await twoProcesses();
    await one.live?.update(run, { text: 'One' });
    expect(await two.deliver(answer, never)).toEqual(SENT);
    // The first one doesn't know yet.
    await one.live?.update(run, { text: 'One tw' });
    expect(server.seen('unknown')).toEqual(['One two three.']);
    expect(server.messages).toHaveLength(1);
  });

  test('is one card, when two processes begin at once', async () => {
    const { one, two, server } = await twoProcesses();
    await Promise.all([one.live?.update(run, { text: 'One' }), two.live?.update(run, { text: 'One' })]);
    expect(await two.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
  });

  test('goes on when one update is refused as late or doubled', async () => {
    for (const code of [300317, 300301]) {
      const { one, server } = await twoProcesses();
      await one.live?.update(run, { text: 'One' });
      server.fail('PUT', /content$/, { status: 400, code });
      await one.live?.update(run, { text: 'One two' });
      await one.live?.update(run, { text: 'One two th' });
      expect(server.seen('unknown')).toEqual(['One two th']);
      // And the last one as well: the card is replaced as a whole.
      server.fail('PUT', /content$/, { status: 400, code });
      expect(await one.deliver(answer, never)).toEqual(SENT);
      expect(server.seen('unknown')).toEqual(['One two three.']);
    }
  });
});

describe('when it fails', () => {
  test('no cards: a message that is updated; then the answer, in its place', async () => {
    const { one, two, server } = await twoProcesses();
    server.fail('POST', /^\/cardkit\/v1\/cards$/, { status: 400, code: 99991672, times: 9 });
    await one.live?.update(run, { text: 'One' });
    expect(server.seen('unknown')).toEqual(['One']);
    expect(await two.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
    expect(server.messages.map(({ type }) => type)).toEqual(['interactive']);
  });

  test('no message with a card either: the plain answer alone', async () => {
    const { one, server } = await twoProcesses();
    server.fail('POST', /^\/cardkit\/v1\/cards$/, { status: 400, code: 99991672, times: 9 });
    server.fail('POST', /reply$/, { status: 400, code: 230099, times: 2 });
    await one.live?.update(run, { text: 'One' }).catch(() => undefined);
    expect(await one.deliver(answer, never)).toEqual(SENT);
    expect(server.messages.map(({ type }) => type)).toEqual(['post']);
  });

  test('a card that can be neither finished nor replaced is taken back before the plain answer goes out', async () => {
    const { one, two, server } = await twoProcesses();
    await one.live?.update(run, { text: 'One' });
    server.fail('PUT', /^\/cardkit\//, { status: 400, code: 300305, times: 99 });
    server.fail('PATCH', /^\/im\/v1\/messages\//, { status: 400, code: 230099, times: 99 });
    // Taking it back fails, too, at first: nothing else is shown until it has worked.
    server.fail('DELETE', /^\/im\/v1\/messages\//, { status: 500, code: 1000005, times: 2 });
    for (const channel of [one, two]) {
      expect(await channel.deliver(answer, never)).toMatchObject({ status: 'retry' });
      expect(server.seen('unknown')).toEqual(['One']);
    }
    expect(await two.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
    expect(await one.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
  });

  test('without good credentials a card stays as it is until they are good again', async () => {
    const { one, server } = await twoProcesses();
    await one.live?.update(run, { text: 'One' });
    server.expireTokens();
    server.fail('POST', /tenant_access_token/, { code: 10014, times: 2 });
    expect(await one.deliver(answer, never)).toMatchObject({ status: 'wait' });
    expect(server.seen('unknown')).toEqual(['One']);
    expect(await one.deliver(answer, never)).toMatchObject({ status: 'wait' });
    expect(await one.deliver(answer, never)).toEqual(SENT);
    expect(server.seen('unknown')).toEqual(['One two three.']);
  });
});
