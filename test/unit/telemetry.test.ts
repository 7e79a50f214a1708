// Logs and metrics: what operators read holds no secrets and no users.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { describe, expect, it, test } from 'vitest';
import { createLog, serializeError } from '../../src/telemetry/log.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

function capture() {
  let text = '';
  const log = createLog({ level: 'debug', destination: { write: (line) => void (text += line) } });
  return { log, text: () => text };
}

test('secrets are redacted at the top and below', () => {
  const { log, text } = capture();
  log.info(
    {
      api_key: 'sk-1',
      headers: { authorization: 'Bearer sk-2', 'x-api-key': 'sk-3', cookie: 'sk-4' },
      channel: { settings: { app_secret: 'sk-5', token: 'sk-6' } },
    },
    'a line',
  );
  expect(text()).toContain('a line');
  expect(text()).not.toMatch(/sk-\d/);
});

test('an error shows name, message, code and cause, but not what is attached to it', () => {
  const cause = Object.assign(new Error('socket closed'), { headers: { authorization: 'Bearer sk-1' } });
  const error = Object.assign(new Error('failed', { cause }), {
    code: 'ECONNRESET',
    request: { key: 'sk-2' },
  });
  const { log, text } = capture();
  log.error({ error }, 'went wrong');
  expect(JSON.parse(text())).toMatchObject({
    level: 'error',
    error: { name: 'Error', message: 'failed', code: 'ECONNRESET', cause: { message: 'socket closed' } },
  });
  expect(text()).not.toMatch(/sk-\d/);
  expect(serializeError('plain')).toBe('plain');
});

test('a child keeps its run id on every line', () => {
  const { log, text } = capture();
  log.child({ run: 'r1' }).warn({ n: 1 }, 'x');
  expect(JSON.parse(text())).toMatchObject({ run: 'r1', n: 1, msg: 'x', level: 'warn' });
});

test('metrics count runs, turns, tokens and tools by account and model', async () => {
  const metrics = createMetrics();
  const base = { conversation: 'webhook:private', run: 'r1', turn: 1 };
  const usage = { input: 10, output: 5, cached: 4 };
  metrics.message('webhook', 'queued');
  metrics.runEvent('webhook', { ...base, type: 'turn_end', stop: 'stop', model: 'gpt', usage });
  metrics.runEvent('webhook', {
    ...base,
    type: 'tool_execution_end',
    call_id: '1',
    name: 'now',
    duration_ms: 3,
    result: { type: 'tool_result', tool_use_id: '1', content: 'x', is_error: true },
  });
  metrics.run('webhook', 'committed', 0.2);
  metrics.delivery('webhook', 'sent', 0.1);
  const depth = { waiting: 3, active: 2, delayed: 1 };
  const lanes = {
    depth: () => Promise.resolve(depth),
    wake: async () => undefined,
    work: async () => undefined,
  };
  metrics.watchQueue('lanes', { ...lanes, close: async () => undefined });
  const text = await metrics.render();
  for (const line of [
    'lanekeeper_messages_total{account="webhook",result="queued"} 1',
    'lanekeeper_turns_total{model="gpt",stop="stop"} 1',
    'lanekeeper_tokens_total{model="gpt",kind="cached"} 4',
    'lanekeeper_runs_total{account="webhook",result="committed"} 1',
    'lanekeeper_deliveries_total{account="webhook",result="sent"} 1',
    'lanekeeper_tool_seconds_count{tool="now",result="error"} 1',
    'lanekeeper_queue_depth{queue="lanes",state="waiting"} 3',
  ]) {
    expect(text).toContain(line);
  }
  expect(text).not.toContain('private');
});

describe('the log of a process', () => {
  /** Logs lines when its standard input ends, and ends. */
  const PROGRAM = `
    const { createLog } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/telemetry/log.ts'))});
    const log = createLog({ level: 'info' });
    log.info({}, 'first words');
    process.stdin.resume().on('end', () => {
      log.info({}, 'nearly the last words');
      log.info({}, 'last words');
      process.exit(3);
    });`;
  const start = () =>
    spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });

  it('has its last line, however abruptly it ends', async () => {
    const child = start();
    child.stdin.end();
    expect(await readText(child.stdout)).toContain('"last words"');
  });

  it('does not keep it from ending when nobody reads it any more', async () => {
    const child = start();
    await once(child.stdout, 'data');
    child.stdout.destroy();
    await once(child.stdout, 'close');
    child.stdin.end();
    const [code] = (await once(child, 'exit', { signal: AbortSignal.timeout(5_000) }).finally(() =>
      child.kill('SIGKILL'),
    )) as [number];
    expect(code).toBe(3);
  });
});
