// Results of many rounds → one table.
import type { Backend } from './plan.ts';
import type { RoundResult } from './round.ts';

export type LoggedRound = Omit<RoundResult, 'timeline'> & { backend: Backend };

export function summarize(rounds: readonly LoggedRound[]): string {
  const backends = [...new Set(rounds.map(({ backend }) => backend))].sort();
  const of = (backend: Backend) => rounds.filter((round) => round.backend === backend);
  const sum = (backend: Backend, valueOf: (round: LoggedRound) => number) =>
    of(backend).reduce((total, round) => total + valueOf(round), 0);
  const row = (label: string, valueOf: (backend: Backend) => number | string) =>
    `| ${label} | ${backends.map((backend) => valueOf(backend).toString()).join(' | ')} |`;
  const kinds = [...new Set(rounds.flatMap(({ faults }) => faults))].sort();
  return [
    row('', (backend) => backend),
    `|---|${backends.map(() => '---:|').join('')}`,
    row('rounds', (backend) => of(backend).length),
    row('conversations', (backend) => sum(backend, (round) => round.conversations)),
    row('messages accepted', (backend) => sum(backend, (round) => round.messages)),
    row('posts, repeated ones included', (backend) => sum(backend, (round) => round.posts)),
    row('model calls', (backend) => sum(backend, (round) => round.modelCalls)),
    row('callbacks received', (backend) => sum(backend, (round) => round.callbacks)),
    row('runs taken over', (backend) => sum(backend, (round) => round.takeovers)),
    row('merges refused', (backend) => sum(backend, (round) => round.refused)),
    ...kinds.map((kind) =>
      row(`fault: ${kind}`, (backend) =>
        sum(backend, (round) => round.faults.filter((one) => one === kind).length),
      ),
    ),
    row(
      'rounds with violations',
      (backend) => of(backend).filter((round) => round.violations.length > 0).length,
    ),
  ].join('\n');
}
