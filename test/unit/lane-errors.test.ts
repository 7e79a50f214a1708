// What ended an attempt is told to the one after it, so that a run that is given up says why.
import { expect, test, vi } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { AppError } from '../../src/domain/errors.ts';
import { createLane } from '../../src/lane/lane.ts';
import { systemClock } from '../../src/system-clock.ts';
import { inbound } from '../contract/suites/support.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { openTestStorage } from '../fakes/storage.ts';

const { later } = useCleanups();

test('an error of ours with its words, another one by its name only', async () => {
  const storage = await openTestStorage(later);
  const told: (string | undefined)[] = [];
  const endings = [new AppError('config_invalid', 'The prompt is gone.'), new TypeError('sk-secret')];
  const lane = createLane({
    store: storage.store,
    control: storage.control,
    async run({ lastError }) {
      told.push(lastError);
      const error = endings.shift();
      if (error) throw error;
      return 'idle';
    },
    config: () => configSchema.parse({ workers: { lock_seconds: 0.02 } }),
    newRunId: () => 'r1',
    clock: systemClock,
    log: silentLog,
    onEnd: () => undefined,
  });
  later(lane.close);
  await storage.store.append(inbound('acct:a', 'm1'));
  await vi.waitFor(async () => {
    const outcome = await lane.handler('acct:a', new AbortController().signal).catch(() => 'threw');
    expect(outcome).toBe('idle');
  });
  expect(told).toEqual([undefined, 'config_invalid: The prompt is gone.', 'TypeError']);
});
