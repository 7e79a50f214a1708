// The files that the outbox still names, on a real SQLite file: what waits and what is parked, and nothing that was sent.
import { expect, test } from 'vitest';
import { filesToSend } from '../../src/delivery/files.ts';
import type { Attachment } from '../../src/domain/inbound.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { openTestStorage } from '../fakes/storage.ts';

const { later } = useCleanups();
const LEASE_MS = 5_000;

test('files of deliveries that wait or are parked are named until they are sent', async () => {
  const storage = await openTestStorage(later);
  const { store, outbox } = storage;
  async function named(): Promise<string[]> {
    const refs: string[] = [];
    for await (const ref of filesToSend(outbox)) refs.push(ref);
    return refs;
  }

  async function answer(n: number, attachments?: Attachment[]): Promise<void> {
    const conversation = `test:${n}`;
    await store.append({
      id: `m${n}`,
      conversation,
      account: 'test',
      at: 1,
      sender: { id: 'ada' },
      text: 'hi',
      busy: 'steer',
    });
    const claim = await store.claim(conversation, { run: `r${n}`, leaseMs: LEASE_MS, limit: 1 });
    if (claim.status !== 'claimed') throw new Error('not claimed');
    const reply = { text: 'there', ...(attachments ? { attachments } : {}) };
    const outcome = { status: 'done' as const, reply };
    const address = {};
    const delivery = {
      id: `r${n}.0`,
      conversation,
      account: 'test',
      run: `r${n}`,
      messages: [`m${n}`],
      address,
      at: 1,
    };
    await store.commit(claim.lease, { entries: [], deliveries: [{ ...delivery, ...outcome }], outcome });
  }

  await answer(0);
  // More than a page.
  for (let n = 1; n <= 201; n++) await answer(n, [{ type: 'file', ref: `media:${n}` }]);
  expect(await named()).toHaveLength(201);

  for (const n of [1, 2]) {
    const claim = await outbox.claim(`test:${n}`, LEASE_MS);
    if (claim.status !== 'claimed') throw new Error('not claimed');
    if (n === 1) await outbox.settle(claim.lease);
    else await outbox.park(claim.lease, 'refused');
  }
  const left = await named();
  expect(left).toHaveLength(200);
  expect(left).toContain('media:2');
  expect(left).not.toContain('media:1');
});
