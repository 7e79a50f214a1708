// The whole contract of a Storage: what test/contract/<backend>.test.ts calls.
import { describe, expect, it } from 'vitest';
import { channelStateContract } from './channel-state.ts';
import { controlContract } from './control.ts';
import { eventsContract } from './events.ts';
import { failedContract } from './failed.ts';
import { indexContract } from './index.ts';
import { lanesContract } from './lanes.ts';
import { limitsContract } from './limits.ts';
import { outboxContract } from './outbox.ts';
import { peopleContract } from './people.ts';
import { readerContract } from './reader.ts';
import { recoveryContract } from './recovery.ts';
import { storeContract } from './store.ts';
import { useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

export function storageContract(name: string, make: MakeBacking): void {
  storeContract(name, make);
  recoveryContract(name, make);
  limitsContract(name, make);
  readerContract(name, make);
  outboxContract(name, make);
  failedContract(name, make);
  indexContract(name, make);
  peopleContract(name, make);
  channelStateContract(name, make);
  controlContract(name, make);
  eventsContract(name, make);
  lanesContract(name, make);

  describe(`${name}: storage`, () => {
    const backing = useBacking(make);

    it('says that it works while it is open, and closes twice without complaint', async () => {
      const storage = await backing().open();
      await storage.check();
      await storage.lanes.close(0);
      await storage.deliveries.close(0);
      await storage.close();
      await storage.close();
      await expect(storage.check()).rejects.toMatchObject({ code: 'storage_unavailable' });
    });
  });
}
