// A stranger's pairing code: what an administrator approves, by command or in the console, and what the person is told then.
import { randomInt } from 'node:crypto';
import { languageOf, sentence } from '../domain/sentences.ts';
import type { ChannelMessage } from '../ports/channel.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { Notice, Pairing, People } from '../ports/people.ts';
import type { Storage } from '../ports/storage.ts';

/** Without letters and digits that look alike. */
const ALPHABET = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';
const CODE_CHARS = 8;

/** What a stranger is told; undefined: too many wait, so nothing is said. */
export async function greetStranger(
  people: People,
  account: string,
  conversation: string,
  { id: message, sender, text, replyTo }: ChannelMessage,
): Promise<string | undefined> {
  const code = Array.from({ length: CODE_CHARS }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  const { id: person, name } = sender;
  const language = languageOf(text, 'zh');
  const known = await people.ask({
    code,
    account,
    person,
    ...(name === undefined ? {} : { name }),
    ...(replyTo ? { tell: { conversation, message, address: replyTo.address, language } } : {}),
  });
  return known && sentence('pairing', language, { code: known.code });
}

/** Lets a person in, by code, and tells the person. Undefined: no such code, or it is too old. */
export type Approve = (code: string, by: string) => Promise<Pairing | undefined>;

export interface ApprovalOptions {
  storage: Pick<Storage, 'people' | 'outbox' | 'deliveries'>;
  clock: Pick<Clock, 'now'>;
  log: Logger;
}

export function createApproval({ storage, clock, log }: ApprovalOptions): Approve {
  const { people, outbox, deliveries } = storage;

  async function tell({ code, account }: Pairing, { conversation, message, address, language }: Notice) {
    const run = `pairing-${code}`;
    await outbox.add({
      id: `${run}.0`,
      conversation,
      account,
      run,
      messages: [message],
      address,
      status: 'done',
      reply: { text: sentence('let_in', language) },
      at: clock.now(),
    });
    await deliveries.wake(conversation);
  }

  return async (code, by) => {
    const waits = (await people.list()).some((one) => one.code === code && one.approvedAt === undefined);
    const pairing = await people.approve(code, by);
    // Once: an approval that is repeated says nothing new.
    if (pairing?.tell && waits) {
      await tell(pairing, pairing.tell).catch((error: unknown) => {
        log.warn({ error, account: pairing.account }, 'a person was let in, but could not be told');
      });
    }
    return pairing;
  };
}
