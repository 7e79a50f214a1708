// The loop alone: turns a second of our agent, beside pi-agent-core's, with a model that answers at once and one trivial
// tool. Each measurement has a process of its own, the two sides take turns, and what counts is their ratio.
import { join } from 'node:path';
import { z } from 'zod';
import { installPeers } from '../lib/peers.ts';
import { runJson } from '../lib/process.ts';
import type { Report } from '../lib/report.ts';
import { figure, median } from '../lib/stats.ts';

const TURNS = [10, 100, 1000];
const here = import.meta.dirname;
const shape = z.strictObject({ turnsPerSecond: z.number() });

export async function benchLoop(options: { quick: boolean }): Promise<Report> {
  const rounds = options.quick ? 1 : 3;
  const forMs = options.quick ? 200 : 2000;
  // A quick run stays offline: it shows our side alone.
  const peer = options.quick ? false : await installPeers(here, '@mariozechner/pi-agent-core');
  const rows: string[][] = [];
  const data: { turns: number; ours: number[]; peer: number[] }[] = [];
  for (const turns of TURNS) {
    const ours: number[] = [];
    const theirs: number[] = [];
    const rate = async (script: string): Promise<number> =>
      (await runJson(join(here, script), [String(turns), String(forMs)], shape)).turnsPerSecond;
    for (let round = 0; round < rounds; round++) {
      ours.push(await rate('ours.ts'));
      if (peer) theirs.push(await rate('pi.mjs'));
    }
    const ratio = median(ours) / median(theirs);
    rows.push([
      `${turns}`,
      figure(median(ours)),
      peer ? figure(median(theirs)) : '–',
      peer ? `${figure(ratio, 2)} ×` : '–',
    ]);
    data.push({ turns, ours, peer: theirs });
  }
  const notes = [
    `Median of ${rounds} round(s) in alternation, each in a process of its own; seconds of the thread's CPU time.`,
  ];
  if (!peer) notes.push('The peer was not installed: our side only.');
  return {
    name: 'loop',
    title: 'Loop: turns a second with a model that answers at once and one trivial tool',
    table: { columns: ['turns a run', 'Lanekeeper', 'pi-agent-core 0.73', 'ratio'], rows },
    notes,
    data,
  };
}
