// accept() over a real storage, as the composition root wires it, for one webhook account named `acc`.
import { peopleOf } from '../../config/people-schema.ts';
import { agentSchema, configSchema } from '../../config/schema.ts';
import { createAccept } from '../../src/inbox/accept.ts';
import { createCommands } from '../../src/inbox/commands.ts';
import type { Overload } from '../../src/inbox/overload.ts';
import type { Accept } from '../../src/ports/channel.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { systemClock } from '../../src/system-clock.ts';
import { recordingLog } from './log.ts';

export interface AcceptOn {
  /** Settings of `agent`. */
  agent?: object;
  draining?: boolean;
  overload?: Overload;
  /** In one conversation; default: any number. */
  maxWaiting?: number;
  /** Parts in place of the storage's own. */
  storage?: Partial<Storage>;
  /** Settings of the account. */
  channel?: object;
  /** Ids of this server's own accounts. */
  ours?: string[];
}

/** Refuses nothing. */
export const openDoor: Overload = { admit: async () => ({ [Symbol.dispose]: () => undefined }) };

export function acceptOn(storage: Storage, more: AcceptOn = {}) {
  const { log, lines } = recordingLog();
  const counts: string[] = [];
  const parts: Storage = { ...storage, ...more.storage };
  const { channels } = configSchema.parse({ channels: { acc: { type: 'webhook', ...more.channel } } });
  const accept: Accept = createAccept({
    storage: parts,
    settings: () => agentSchema.parse(more.agent ?? {}),
    people: (account) => peopleOf(channels, account),
    isOurs: (_account, sender) => more.ours?.includes(sender) ?? false,
    command: createCommands({
      storage: parts,
      models: ['main', 'big'],
      timeZone: () => 'UTC',
      clock: systemClock,
      log,
    }),
    draining: () => more.draining ?? false,
    overload: more.overload ?? openDoor,
    maxWaiting: () => more.maxWaiting ?? 0,
    clock: systemClock,
    log,
    count: (account, result) => void counts.push(`${account} ${result}`),
  });
  return { accept, lines, counts };
}
