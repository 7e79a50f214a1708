// People on Redis: few, and looked at together, so that they share one slot.
import { MAX_WAITING_PAIRINGS, PAIRING_TTL_MS, type Pairing, type People } from '../../ports/people.ts';
import { PEOPLE } from './keys.ts';
import type { RedisContext } from './operations.ts';
import type { Reply } from './scripts.ts';

const { requests, codes, approvals, times } = PEOPLE;
const keyOf = (account: string, person: string): string => JSON.stringify([account, person]);

export function createPeople({ operate, connections }: RedisContext): People {
  return {
    async ask(request) {
      const { code, account, person } = request;
      const key = keyOf(account, person);
      const json = JSON.stringify({ ...request, key });
      const reply = await operate(
        'people-ask',
        [requests, codes, approvals, times],
        [code, key, json.slice(0, -1), PAIRING_TTL_MS, MAX_WAITING_PAIRINGS, account],
      );
      return pairing(reply);
    },

    async approved(account, person) {
      const code = await connections.call((client) => client.hget(codes, keyOf(account, person)));
      return code !== null && (await connections.call((client) => client.hexists(approvals, code))) === 1;
    },

    async approve(code, by) {
      return pairing(
        await operate(
          'people-approve',
          [requests, approvals, times],
          [code, JSON.stringify(by), PAIRING_TTL_MS],
        ),
      );
    },

    async remove(code) {
      return pairing(await operate('people-remove', [requests, codes, approvals, times], [code]));
    },

    async list() {
      const [waiting, approved] = await Promise.all([
        connections.call((client) => client.hvals(requests)),
        connections.call((client) => client.hvals(approvals)),
      ]);
      const oldest = Date.now() - PAIRING_TTL_MS;
      return [...waiting, ...approved]
        .flatMap((json) => pairing(json) ?? [])
        .filter((one) => one.approvedAt !== undefined || one.at > oldest)
        .toSorted((a, b) => a.at - b.at);
    },
  };
}

function pairing(reply: Reply): Pairing | undefined {
  if (reply === null) return undefined;
  const { key: _key, ...rest } = JSON.parse(reply as string) as Pairing & { key: string };
  return rest;
}
