// A stranger's pairing code: what an administrator approves, by command or in the console.
import { randomInt } from 'node:crypto';
import { languageOf, sentence } from '../domain/sentences.ts';
import type { ChannelMessage } from '../ports/channel.ts';
import type { People } from '../ports/people.ts';

/** Without letters and digits that look alike. */
const ALPHABET = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';
const CODE_CHARS = 8;

/** What a stranger is told; undefined: too many wait, so nothing is said. */
export async function greetStranger(
  people: People,
  account: string,
  { sender, text }: ChannelMessage,
): Promise<string | undefined> {
  const code = Array.from({ length: CODE_CHARS }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  const { id: person, name } = sender;
  const known = await people.ask({ code, account, person, ...(name === undefined ? {} : { name }) });
  return known && sentence('pairing', languageOf(text, 'zh'), { code: known.code });
}
