// What an MCP server sees of us, by a server that writes down every message: over stdio and over streamable HTTP, cancelled
// calls, time-outs, progress, new tools, its environment, its end, and when it is started again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Play, ScriptedCall } from '../fakes/agent.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { createTestToolset, processesWith, resultsOf, texts, type TestToolset } from '../fakes/toolset.ts';

const SERVER = join(import.meta.dirname, '../fakes/mcp-server.ts');
const { later, track } = useCleanups();
const PATIENCE = { timeout: 20_000 };

interface Line {
  pid: number;
  started?: true;
  aborted?: true;
  lingers?: true;
  closed?: string;
  message?: { id?: number; method?: string; params?: Record<string, unknown> };
}

const folder = () => mkdtemp(join(tmpdir(), 'lanekeeper-mcp-protocol-'));

/** What the server wrote down. */
async function recorded(file: string): Promise<Line[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

const messages = async (file: string, method: string) =>
  (await recorded(file)).flatMap(({ message }) => (message?.method === method ? [message] : []));

/** A server, and what settings lead to it. */
interface ServerSet {
  file: string;
  settings: Record<string, unknown>;
  port: number;
  close(): Promise<unknown>;
}

async function overStdio(more: Record<string, unknown> = {}): Promise<ServerSet> {
  const dir = await folder();
  const file = join(dir, 'record');
  const close = () => rm(dir, { recursive: true, force: true });
  return { file, settings: { command: process.execPath, args: [SERVER, file], ...more }, port: 0, close };
}

async function overHttp(more: Record<string, unknown> = {}): Promise<ServerSet> {
  const { file, close } = await overStdio();
  const child = spawn(process.execPath, [SERVER, file, 'http'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { port } = JSON.parse(line) as { port: number };
  return {
    file,
    port,
    settings: { url: `http://127.0.0.1:${port}/mcp`, ...more },
    async close() {
      child.kill('SIGKILL');
      await ended;
      await close();
    },
  };
}

const toolset = (settings: Record<string, unknown>, more: Parameters<typeof createTestToolset>[1] = {}) =>
  createTestToolset({ mcp: { servers: { own: settings } }, offer_max: 50 }, more);

/** For one test. */
async function make(set: ServerSet | Promise<ServerSet>, clock: { now(): number } = Date) {
  const made = await set;
  track(made);
  return { ...made, tools: track(toolset(made.settings, { clock })) };
}

const HOLD: ScriptedCall = ['hold', {}];
const NOTE: ScriptedCall = ['note', {}];

const progressOf = ({ events }: Pick<Play, 'events'>) =>
  events.flatMap((event) => (event.type === 'tool_execution_progress' ? [event.text] : []));

describe.each([
  ['stdio', overStdio],
  ['streamable HTTP', overHttp],
] as const)('over %s', (way, start) => {
  describe('one server', () => {
    let set: ServerSet;
    let tools: TestToolset;
    beforeAll(async () => {
      set = await start({ timeout_ms: 2_500 });
      tools = toolset(set.settings);
    });
    afterAll(async () => {
      await tools.close();
      await set.close();
    });

    test('passes progress through, is told of a cancelled run, and goes on', async () => {
      const run = await tools.start([HOLD], {
        onEvent: (event, { cancel }) => {
          if (event.type === 'tool_execution_progress' && event.text === 'nearly there') cancel();
        },
      });
      expect((await run.result).stop).toBe('aborted');
      expect(progressOf(run)).toEqual(['1 of 3', 'nearly there']);
      const [call] = await messages(set.file, 'tools/call');
      await vi.waitFor(async () => {
        expect(await messages(set.file, 'notifications/cancelled')).toMatchObject([
          { params: { requestId: call?.id } },
        ]);
        expect((await recorded(set.file)).filter(({ aborted }) => aborted)).toHaveLength(1);
      }, PATIENCE);
      expect(texts(await tools.call(NOTE))).toEqual(['note 2']);
    });

    test('is told of a time-out, which is a result for the model, and goes on', async () => {
      const [held, note] = await tools.call(HOLD, NOTE);
      expect(held).toMatchObject({ is_error: true, content: expect.stringMatching(/2\.5/) });
      expect(note?.content).toBe('note 4');
      await vi.waitFor(
        async () => expect(await messages(set.file, 'notifications/cancelled')).toHaveLength(2),
        PATIENCE,
      );
    });

    test('offers new tools from the next run on; a run keeps what it had', async () => {
      const before = await tools.forRun();
      const names = before.map(({ name }) => name);
      const said = texts(await tools.call(['grow', {}], ['extra-9', {}]));
      expect(said).toEqual(['grown', expect.stringMatching(/no tool|not.*tool|unknown/i)]);
      expect(before.map(({ name }) => name)).toEqual(names);
      await vi.waitFor(
        async () => expect((await tools.forRun()).map(({ name }) => name)).toContain('extra-9'),
        PATIENCE,
      );
      expect(texts(await tools.call(['extra-9', {}]))).toEqual([expect.stringContaining('extra-9')]);
    });

    test('has structured content alone, and refusals, that reach the model', async () => {
      expect(await tools.call(['structured', {}], ['refuse', {}])).toMatchObject([
        { content: '{"answer":42}' },
        { is_error: true, content: 'not today' },
      ]);
    });

    test('was started once, and greeted once', async () => {
      expect((await recorded(set.file)).filter(({ started }) => started)).toHaveLength(1);
      expect(await messages(set.file, 'initialize')).toHaveLength(1);
    });
  });

  test('a server that dies in a call: the model is told, and it is not called again', async () => {
    const { file, tools } = await make(start({ timeout_ms: 20_000 }));
    const [died] = await tools.call(['die', {}]);
    expect(died).toMatchObject({
      is_error: true,
      content: expect.stringMatching(/ended during the call.*not known/),
    });
    expect(await messages(file, 'tools/call')).toHaveLength(1);
  });

  test('drain in the middle of a call ends it and the server', async () => {
    const { file, tools } = await make(start());
    const run = await tools.start([HOLD]);
    await vi.waitFor(() => expect(progressOf(run)).toHaveLength(2), PATIENCE);
    await tools.close();
    expect(await resultsOf(run)).toMatchObject([{ is_error: true }]);
    if (way === 'stdio') expect(await processesWith(file)).toEqual([]);
    else expect((await recorded(file)).some(({ closed }) => closed !== undefined)).toBe(true);
    const lines = (await recorded(file)).length;
    const [late] = await tools.call(NOTE);
    expect(late).toMatchObject({ is_error: true, content: expect.stringMatching(/shutting down/) });
    expect(await recorded(file)).toHaveLength(lines);
  });
});

describe('stdio', () => {
  test('the environment is what is configured, beside what every program needs', async () => {
    process.env['LANEKEEPER_TEST_SECRET'] = 'not-for-others';
    later(() => delete process.env['LANEKEEPER_TEST_SECRET']);
    const { tools } = await make(overStdio({ env: { OWN_KEY: 'its-own', HOME: '/its/own/home' } }));
    const [text = ''] = texts(await tools.call(['env', {}]));
    const needed = ['LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'].flatMap((name) =>
      process.env[name] === undefined ? [] : [[name, process.env[name]]],
    );
    expect(JSON.parse(text)).toEqual({
      ...Object.fromEntries(needed),
      OWN_KEY: 'its-own',
      HOME: '/its/own/home',
    });
  });

  test('one that is killed between two runs is there for the next', async () => {
    const { file, tools } = await make(overStdio());
    await tools.call(NOTE);
    const [pid = 0] = await processesWith(file);
    process.kill(pid, 'SIGKILL');
    await vi.waitFor(
      () => expect(tools.report().sources).toContainEqual(expect.objectContaining({ state: 'down' })),
      PATIENCE,
    );
    expect(texts(await tools.call(NOTE))).toEqual(['note 1']);
  });

  test('one that does not start is tried again after 1, 2, 4 … 60 seconds, and when it works it is there', async () => {
    const set = await overStdio();
    const dir = dirname(set.file);
    const program = join(dir, 'server.sh');
    const script = (text: string) => writeFile(program, `#!/bin/sh\n${text}\n`);
    await script(`echo try >> ${dir}/tries; exit 1`);
    await chmod(program, 0o755);
    const tries = async () => (await readFile(join(dir, 'tries'), 'utf8')).trim().split('\n').length;
    let nowMs = 1_000_000;
    const { tools } = await make({ ...set, settings: { command: program } }, { now: () => nowMs });
    const settled = () =>
      vi.waitFor(() => expect(tools.report().sources).toMatchObject([{}, { state: 'down' }]), PATIENCE);
    for (const [n, seconds] of [1, 2, 4, 8, 16, 32, 60, 60].entries()) {
      expect(await tools.forRun()).toEqual([]);
      await settled();
      expect(await tries()).toBe(n + 1);
      nowMs += seconds * 1_000 - 1;
      await tools.forRun();
      await settled();
      expect(await tries()).toBe(n + 1);
      nowMs += 1;
    }
    await script(`exec "${process.execPath}" "${SERVER}" "${dir}/record"`);
    await vi.waitFor(
      async () => expect((await tools.forRun()).map(({ name }) => name)).toContain('note'),
      5_000,
    );
  });

  test('one that ignores every request to end is killed', async () => {
    const { file, tools } = await make(overStdio({ env: { LINGER: '1' } }));
    await tools.call(NOTE);
    await tools.close();
    expect(await processesWith(file)).toEqual([]);
    expect((await recorded(file)).at(-1)).toMatchObject({ lingers: true });
  });

  test('a drain does not wait for one that is starting', async () => {
    const args = ['-e', 'setInterval(() => {}, 1000)'];
    const { tools } = await make(overStdio({ args, start_timeout_ms: 60_000 }));
    const offered = tools.forRun();
    await vi.waitFor(
      () => expect(tools.report().sources).toContainEqual({ name: 'mcp:own', state: 'starting' }),
      PATIENCE,
    );
    await tools.close();
    expect(await offered).toEqual([]);
  });
});

describe('streamable HTTP', () => {
  test('the headers of the settings go with each request, and not to another place', async () => {
    const { settings, port, tools } = await make(overHttp({ headers: { 'x-api-key': 'its-own-secret' } }));
    const [headers = ''] = texts(await tools.call(['echo-headers', {}]));
    expect(JSON.parse(headers)).toMatchObject({ 'x-api-key': 'its-own-secret' });

    const other = track(await overHttp());
    const to = encodeURIComponent(`http://127.0.0.1:${other.port}/mcp`);
    const led = track(toolset({ ...settings, url: `http://127.0.0.1:${port}/away?to=${to}` }));
    expect(await led.forRun()).toEqual([]);
    expect(JSON.stringify(led.report())).not.toContain('its-own-secret');
    expect((await recorded(other.file)).filter(({ message }) => message)).toEqual([]);
  });
});
