// Carries out the faults of a plan: each when its counter gets there, one after the other on the same target, and heals it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counter, Fault, FaultKind, PlannedFault } from './plan.ts';
import type { Rig } from './rig.ts';

export interface Injector {
  /** One more of what is counted. */
  count(counter: Counter): void;
  /** Faults that happened so far, by kind. */
  fired: FaultKind[];
  /** Resolves when every fault that began is healed. Those that did not begin never will. */
  healed(): Promise<void>;
}

export function createInjector(
  rig: Rig,
  faults: readonly PlannedFault[],
  note: (what: string) => void,
): Injector {
  const counts: Record<Counter, number> = { accepted: 0, asked: 0, called_back: 0 };
  const waiting = new Set(faults);
  const fired: FaultKind[] = [];
  /** What goes on at each target. */
  const busy = new Map<string, Promise<void>>();
  const over = new AbortController();

  async function carryOut(fault: Fault): Promise<void> {
    const happened = (what: string) => {
      fired.push(fault.kind);
      note(what);
    };
    switch (fault.kind) {
      case 'kill':
        (await rig.processes.get(fault.target)!.up()).child.kill('SIGKILL');
        return happened(`kill -9 ${fault.target}`);
      case 'drain':
        (await rig.processes.get(fault.target)!.up()).child.kill('SIGTERM');
        return happened(`SIGTERM ${fault.target}`);
      case 'stop': {
        const { child } = await rig.processes.get(fault.target)!.up();
        child.kill('SIGSTOP');
        happened(`SIGSTOP ${fault.target} for ${fault.forMs} ms`);
        await sleep(fault.forMs);
        child.kill('SIGCONT');
        return note(`SIGCONT ${fault.target}`);
      }
      case 'kill_at':
      case 'stop_at':
        return atPoint(fault, happened);
      case 'clock': {
        const { child } = await rig.processes.get(fault.target)!.up();
        child.send({ clockMs: fault.byMs }, () => undefined);
        happened(`clock of ${fault.target} by ${fault.byMs} ms`);
        await sleep(fault.forMs);
        if (child.connected) child.send({ clockMs: 0 }, () => undefined);
        return;
      }
      case 'redis_kill':
        await rig.redis!.stop('SIGKILL');
        happened(`kill -9 redis for ${fault.downMs} ms`);
        await sleep(fault.downMs);
        await rig.redis!.start();
        return note('redis is back');
      case 'redis_pause':
        happened(`CLIENT PAUSE ${fault.forMs} ms`);
        await rig.pauseRedis(fault.forMs);
        return sleep(fault.forMs);
      case 'redis_stop':
        process.kill(rig.redis!.pid(), 'SIGSTOP');
        happened(`SIGSTOP redis for ${fault.forMs} ms`);
        await sleep(fault.forMs);
        process.kill(rig.redis!.pid(), 'SIGCONT');
        return;
      case 'cut':
        rig.proxies.get(fault.target)!.cut();
        return happened(`connections of ${fault.target} cut`);
      case 'delay': {
        const proxy = rig.proxies.get(fault.target)!;
        proxy.delay(fault.byMs);
        happened(`replies to ${fault.target} ${fault.byMs} ms late`);
        await sleep(fault.forMs);
        return proxy.delay(0);
      }
      case 'disk_full': {
        if (!rig.fillDisk) return;
        const free = await rig.fillDisk();
        happened(`disk full for ${fault.forMs} ms`);
        await sleep(fault.forMs);
        return free();
      }
    }
  }

  /** Armed until the point is reached or the round is over. */
  async function atPoint(
    { kind, target, point, nth, ...more }: Fault & { kind: 'kill_at' | 'stop_at' },
    happened: (what: string) => void,
  ): Promise<void> {
    const server = await rig.processes.get(target)!.up();
    const action = kind === 'kill_at' ? 'kill' : 'stop';
    const reached = server.line(/"msg":"fault point"/);
    server.child.send({ arm: { point, nth, action } }, () => undefined);
    // The process may end for another reason before.
    reached.then(
      async () => {
        happened(`${action} ${target} at ${point} (${nth})`);
        if (!('forMs' in more)) return;
        await sleep(more.forMs);
        server.child.kill('SIGCONT');
        note(`SIGCONT ${target}`);
      },
      () => undefined,
    );
    const last = Promise.race([reached.catch(() => undefined), server.ended]);
    while (!over.signal.aborted)
      if ((await Promise.race([last.then(() => true), sleep(50)])) === true) return;
    server.child.send({ arm: { point, nth: 1_000_000_000, action } }, () => undefined);
  }

  const targetOf = (fault: Fault) =>
    'target' in fault ? fault.target : fault.kind.startsWith('redis') ? 'redis' : 'disk';

  function begin({ fault, afterMs }: PlannedFault): void {
    const target = targetOf(fault);
    const done = (busy.get(target) ?? Promise.resolve())
      .then(() => sleep(afterMs))
      .then(() => carryOut(fault))
      .catch((error: unknown) => note(`a fault failed: ${fault.kind} ${String(error)}`));
    busy.set(target, done);
  }

  return {
    count(counter) {
      counts[counter]++;
      for (const planned of waiting) {
        if (over.signal.aborted || counts[planned.when.counter] < planned.when.reaches) continue;
        waiting.delete(planned);
        begin(planned);
      }
    },
    fired,
    async healed() {
      over.abort();
      await Promise.all(busy.values());
    },
  };
}
