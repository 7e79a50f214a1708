// The estimate of tokens against real vocabularies: before the model has reported anything, and as the loop goes on with
// what it reported last. Each kind of text is a conversation that grows by one message a request.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createCalibration } from '../../src/agent/context/calibration.ts';
import { estimateMessages } from '../../src/agent/context/estimate.ts';
import { installPeers } from '../lib/peers.ts';
import { runJson } from '../lib/process.ts';
import { writeBlock } from '../lib/readme.ts';
import { markdown, type Report } from '../lib/report.ts';
import { percentile } from '../lib/stats.ts';
import { readTexts } from './texts.ts';

/** What vendors add to each message for its role. */
const ROLE_TOKENS = 4;
const here = import.meta.dirname;
const shape = z.record(z.string(), z.array(z.number()));

/** A message: its estimate, and its tokens. */
interface Counted {
  estimated: number;
  /** By the rule of thumb that many projects use: 1.5 a Chinese character, 0.25 any other. */
  thumb: number;
  actual: number;
}

const thumb = (text: string): number => {
  const chinese = text.match(/\p{Script=Han}/gu)?.length ?? 0;
  return ROLE_TOKENS + 1.5 * chinese + 0.25 * (text.length - chinese);
};

const sum = (messages: readonly Counted[], key: keyof Counted): number =>
  messages.reduce((all, message) => all + message[key], 0);

/** Deviation from the truth, as a share of it: negative means that too few were estimated. */
const off = (estimated: number, actual: number): number => (estimated - actual) / actual;

/** The conversation grows; each request is estimated with what the one before taught. */
function followed(messages: readonly Counted[]): number[] {
  const calibration = createCalibration();
  const errors: number[] = [];
  for (let n = 1; n <= messages.length; n++) {
    const shown = messages.slice(0, n);
    const [estimated, actual] = [sum(shown, 'estimated'), sum(shown, 'actual')];
    if (n > 1) errors.push(Math.abs(off(estimated * calibration.factor('m'), actual)));
    calibration.learn('m', estimated, actual, n);
  }
  return errors;
}

/** Learnt from a whole conversation of another kind. */
function misled(messages: readonly Counted[], others: readonly Counted[][]): number[] {
  return others.map((other) => {
    const calibration = createCalibration();
    calibration.learn('m', sum(other, 'estimated'), sum(other, 'actual'), 0);
    return off(sum(messages, 'estimated') * calibration.factor('m'), sum(messages, 'actual'));
  });
}

const percent = (share: number, signed = true): string =>
  `${signed && share > 0 ? '+' : ''}${(share * 100).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`;

async function countAll(texts: readonly string[]): Promise<Record<string, number[]>> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-estimate-'));
  try {
    const file = join(dir, 'texts.json');
    await writeFile(file, JSON.stringify(texts));
    return await runJson(join(here, 'count.mjs'), [file], shape);
  } finally {
    await rm(dir, { recursive: true });
  }
}

export async function benchEstimate(options: { quick: boolean; write: boolean }): Promise<Report> {
  const columns = [
    'text',
    'vocabulary',
    'messages',
    'tokens',
    'rule of thumb',
    'estimate',
    'calibrated',
    'p95',
    'other text',
  ];
  const report: Report = {
    name: 'estimate',
    title: 'Estimated tokens: how far from the truth, before and after calibration',
    table: { columns, rows: [] },
    notes: [],
    data: [],
  };
  // A quick run stays offline.
  if (options.quick || !(await installPeers(here, 'gpt-tokenizer'))) {
    report.notes.push('The tokenizers were not installed: nothing to measure against.');
    return report;
  }
  const kinds = Object.entries(await readTexts());
  const counts = await countAll(kinds.flatMap(([, messages]) => messages));
  const data: Record<string, unknown>[] = [];
  for (const [vocabulary, all] of Object.entries(counts)) {
    const rest = [...all];
    const counted = kinds.map(([, messages]) =>
      messages.map((text): Counted => ({
        estimated: estimateMessages([{ role: 'user', content: [{ type: 'text', text }] }]),
        thumb: thumb(text),
        actual: rest.shift()! + ROLE_TOKENS,
      })),
    );
    for (const [n, [kind]] of kinds.entries()) {
      const messages = counted[n]!;
      const tokens = sum(messages, 'actual');
      const errors = followed(messages);
      const others = misled(
        messages,
        counted.filter((other) => other !== messages),
      );
      const row = {
        kind,
        vocabulary,
        messages: messages.length,
        tokens,
        thumb: off(sum(messages, 'thumb'), tokens),
        before: off(sum(messages, 'estimated'), tokens),
        after: errors.reduce((total, error) => total + error, 0) / errors.length,
        p95: percentile(errors, 95),
        other: others.reduce((worst, error) => (Math.abs(error) > Math.abs(worst) ? error : worst), 0),
      };
      data.push(row);
      report.table.rows.push([
        kind,
        vocabulary,
        `${row.messages}`,
        `${row.tokens}`,
        percent(row.thumb),
        percent(row.before),
        percent(row.after, false),
        percent(row.p95, false),
        percent(row.other),
      ]);
    }
  }
  report.data = data;
  report.notes.push(
    'Rule of thumb: 1.5 tokens a Chinese character, 0.25 any other. Estimate: of the whole conversation, nothing learnt yet.',
    'Calibrated: mean deviation of each request, with what the request before it taught; p95 likewise.',
    'Other text: the worst deviation when what was learnt comes from a conversation of another kind.',
  );
  if (options.write) {
    const block = `${markdown(report.table)}\n\n${report.notes.join(' ')}`;
    await writeBlock('docs/agent-loop.md', block, 'bench-estimate');
  }
  return report;
}
