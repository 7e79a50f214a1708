// Prometheus metrics: by channel account and model, never by user or conversation.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RunEvent } from '../domain/events.ts';
import type { LaneQueue } from '../ports/lanes.ts';

export interface Metrics {
  contentType: string;
  render(): Promise<string>;
  /** `result`: queued, duplicate, command, ignored, refused or failed. */
  message(account: string, result: string): void;
  /** Counts turns, tokens, tools and ends of runs. */
  runEvent(account: string, event: RunEvent): void;
  /** `result`: committed, lost, drained or error; `seconds` from claim to commit. */
  run(account: string, result: string, seconds: number): void;
  /** `result`: sent, retry, park or drop. */
  delivery(account: string, result: string, seconds: number): void;
  /** Read when scraped. */
  watchQueue(queue: string, lanes: LaneQueue): void;
}

const SECONDS = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];

  const messages = new Counter({
    name: 'lanekeeper_messages_total',
    help: 'Inbound messages by what became of them',
    labelNames: ['account', 'result'],
    registers,
  });
  const runs = new Counter({
    name: 'lanekeeper_runs_total',
    help: 'Agent runs by how they ended',
    labelNames: ['account', 'result'],
    registers,
  });
  const answers = new Counter({
    name: 'lanekeeper_answers_total',
    help: 'Committed runs by what the user got: done or failed',
    labelNames: ['account', 'status'],
    registers,
  });
  const runSeconds = new Histogram({
    name: 'lanekeeper_run_seconds',
    help: 'Time from claim to commit',
    labelNames: ['account'],
    buckets: SECONDS,
    registers,
  });
  const turns = new Counter({
    name: 'lanekeeper_turns_total',
    help: 'Model calls that ended a turn, by stop reason',
    labelNames: ['model', 'stop'],
    registers,
  });
  const tokens = new Counter({
    name: 'lanekeeper_tokens_total',
    help: 'Tokens by kind: input (cached ones included), output, cached',
    labelNames: ['model', 'kind'],
    registers,
  });
  const toolSeconds = new Histogram({
    name: 'lanekeeper_tool_seconds',
    help: 'Time of tool executions',
    labelNames: ['tool', 'result'],
    buckets: SECONDS,
    registers,
  });
  const deliveries = new Counter({
    name: 'lanekeeper_deliveries_total',
    help: 'Delivery attempts by result',
    labelNames: ['account', 'result'],
    registers,
  });
  const deliverySeconds = new Histogram({
    name: 'lanekeeper_delivery_seconds',
    help: 'Time of one delivery attempt',
    labelNames: ['account'],
    buckets: SECONDS,
    registers,
  });
  const queues = new Map<string, LaneQueue>();
  const depth = new Gauge({
    name: 'lanekeeper_queue_depth',
    help: 'Conversations in each queue by state',
    labelNames: ['queue', 'state'],
    registers,
    async collect() {
      await Promise.all(
        [...queues].map(async ([queue, lanes]) => {
          try {
            for (const [state, count] of Object.entries(await lanes.depth()))
              this.set({ queue, state }, count);
          } catch {
            // The queue is unreachable: no figure is better than a stale one, and readyz says why.
            for (const state of ['waiting', 'active', 'delayed']) this.remove({ queue, state });
          }
        }),
      );
    },
  });
  void depth;

  return {
    contentType: registry.contentType,
    render: () => registry.metrics(),
    message: (account, result) => messages.inc({ account, result }),
    run(account, result, seconds) {
      runs.inc({ account, result });
      runSeconds.observe({ account }, seconds);
    },
    delivery(account, result, seconds) {
      deliveries.inc({ account, result });
      deliverySeconds.observe({ account }, seconds);
    },
    runEvent(account, event) {
      if (event.type === 'turn_end') {
        const model = event.model ?? 'unknown';
        turns.inc({ model, stop: event.stop });
        if (event.usage) {
          tokens.inc({ model, kind: 'input' }, event.usage.input);
          tokens.inc({ model, kind: 'output' }, event.usage.output);
          tokens.inc({ model, kind: 'cached' }, event.usage.cached);
        }
      } else if (event.type === 'tool_execution_end') {
        const result = event.result.is_error ? 'error' : 'success';
        toolSeconds.observe({ tool: event.name, result }, event.duration_ms / 1000);
      } else if (event.type === 'agent_end') {
        answers.inc({ account, status: event.status });
      }
    },
    watchQueue: (queue, lanes) => void queues.set(queue, lanes),
  };
}
