// A server process that is started again whenever it ends, as an operator's supervisor does.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultOrder } from '../../fakes/fault-points.ts';
import type { ServerProcess } from '../../fakes/server.ts';

export interface Supervised {
  name: string;
  /** The running process; undefined while it is down. */
  current(): ServerProcess | undefined;
  /** Resolves with the process as soon as there is one. */
  up(): Promise<ServerProcess>;
  signal(signal: NodeJS.Signals): void;
  order(order: FaultOrder): void;
  /** Kills it, and keeps it down until release(). */
  hold(): Promise<void>;
  release(): void;
  /** Its log lines since the last call, those of ended processes included. */
  takeLines(): string[];
  starts(): number;
  close(): Promise<void>;
}

export function supervise(name: string, launch: () => Promise<ServerProcess>): Supervised {
  let current: ServerProcess | undefined;
  let closing = false;
  let held: PromiseWithResolvers<void> | undefined;
  let waiting: ((process: ServerProcess) => void)[] = [];
  let starts = 0;
  const lines: string[] = [];

  const collect = (process: ServerProcess | undefined) => {
    if (process) lines.push(...process.lines.splice(0));
  };

  async function run(): Promise<void> {
    for (;;) {
      if (held) await held.promise;
      if (closing) return;
      let started: ServerProcess;
      try {
        started = await launch();
      } catch (error) {
        lines.push(`did not start: ${String(error)}`);
        await sleep(50);
        continue;
      }
      starts++;
      current = started;
      for (const resolve of waiting.splice(0)) resolve(started);
      if (closing || held) started.child.kill('SIGKILL');
      await started.ended;
      collect(started);
      current = undefined;
    }
  }
  const running = run();

  return {
    name,
    current: () => current,
    up: () =>
      current ? Promise.resolve(current) : new Promise<ServerProcess>((resolve) => waiting.push(resolve)),
    signal: (signal) => void current?.child.kill(signal),
    order(order) {
      if (current?.child.connected) current.child.send(order, () => undefined);
    },
    async hold() {
      held ??= Promise.withResolvers();
      const process = current ?? (await this.up());
      process.child.kill('SIGKILL');
      await process.ended;
    },
    release() {
      held?.resolve();
      held = undefined;
    },
    takeLines() {
      collect(current);
      return lines.splice(0);
    },
    starts: () => starts,
    async close() {
      closing = true;
      held?.resolve();
      current?.child.kill('SIGKILL');
      waiting = [];
      await running;
    },
  };
}
