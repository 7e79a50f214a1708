// The table of docs/decisions/0001-lanes.md: what a BullMQ Queue and Worker object per conversation costs, beside one
// queue with one deduplicated job per conversation. The same messages through both, on one redis-server.
// Each way runs in a process of its own (lanes-variant.ts), so that memory and connections are its alone.
import { join } from 'node:path';
import type { z } from 'zod';
import { runJson } from './lib/process.ts';
import { startRedis } from './lib/redis.ts';
import type { Report } from './lib/report.ts';
import { figure, median } from './lib/stats.ts';
import { laneFigures, type LaneVariant } from './lanes-variant.ts';

type LaneFigures = z.infer<typeof laneFigures>;

const SCRIPT = join(import.meta.dirname, 'lanes-variant.ts');
const VARIANTS: LaneVariant[] = ['objects', 'jobs'];

export async function benchLanes(options: { quick: boolean }): Promise<Report> {
  const conversations = options.quick ? 50 : 2000;
  const rounds = options.quick ? 1 : 3;
  const figures: Record<LaneVariant, LaneFigures[]> = { objects: [], jobs: [] };
  for (let round = 0; round < rounds; round++)
    for (const variant of VARIANTS) {
      const redis = await startRedis('off');
      try {
        const args = ['--variant', variant, '--url', redis.url, '--conversations', String(conversations)];
        figures[variant].push(await runJson(SCRIPT, args, laneFigures));
      } finally {
        await redis.stop();
      }
    }
  const of = (variant: LaneVariant, name: keyof LaneFigures): number =>
    median(figures[variant].map((one) => one[name]));
  const row = (title: string, name: keyof LaneFigures, digits = 0): string[] => [
    title,
    ...VARIANTS.map((variant) => figure(of(variant, name), digits)),
  ];
  return {
    name: 'lanes',
    title: `Lanes: ${figure(conversations)} conversations with 3 messages each, a run of 1 ms a message`,
    table: {
      columns: [
        '',
        'Queue + Worker object per conversation',
        'one queue, one deduplicated job per conversation',
      ],
      rows: [
        row('messages per second', 'messagesPerSecond'),
        row('the same, when every lane exists', 'warmMessagesPerSecond'),
        row('Redis connections', 'connections'),
        row('Redis keys left when idle', 'idleKeys'),
        row('kilobytes in these keys', 'idleKilobytes'),
        row('process RSS, MB', 'rssMb'),
        row('overlapping runs', 'overlaps'),
        row('messages out of order or missing', 'misplaced'),
      ],
    },
    notes: [
      `Median of ${rounds} round(s); redis-server without an append-only file; producer and workers in one process.`,
    ],
    data: { conversations, rounds: figures },
  };
}
