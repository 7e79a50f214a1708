// MCP against the protocol's own reference servers, unmodified, as processes: over stdio and over HTTP, with every kind of
// content, killed in the middle, and nothing left behind.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/system-clock.ts';
import { messagesOf, start } from '../fakes/agent.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { createTestMedia } from '../fakes/media.ts';
import { createTestToolset, processesWith, resultsIn, texts } from '../fakes/toolset.ts';

const PACKAGES = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol');
const EVERYTHING = join(PACKAGES, 'server-everything/dist/index.js');
const stdio = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [join(PACKAGES, `server-${name}/dist/index.js`), ...args],
});

const { later, track } = useCleanups();

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'lanekeeper-mcp-'));
  later(() => rm(made, { recursive: true, force: true }));
  return made;
}

const make = (
  servers: Record<string, unknown>,
  more: Record<string, unknown> = {},
  options: Parameters<typeof createTestToolset>[1] = {},
) => track(createTestToolset({ mcp: { servers }, ...more }, options));

describe('over stdio', () => {
  test('everything: texts, pictures, structured content, links, files, and errors', async () => {
    const media = await createTestMedia(later);
    const tools = make({ every: stdio('everything') }, { offer_max: 50 }, { media });
    expect(tools.report().sources).toContainEqual({ name: 'mcp:every', state: 'idle' });
    const offered = await tools.forRun();
    const names = offered.map(({ name }) => name);
    expect(names).toEqual(names.toSorted());
    expect(names).toContain('echo');
    expect(await tools.forRun()).toBe(offered);
    const results = await tools.call(
      ['echo', { message: 'hello' }],
      ['get-sum', { a: 2, b: 3 }],
      ['get-tiny-image', {}],
      ['get-structured-content', { location: 'New York' }],
      ['get-resource-links', { count: 2 }],
      ['get-resource-reference', { resourceType: 'Text', resourceId: 1 }],
      ['get-sum', { a: 'x' }],
    );
    const said = texts(results);
    expect(said[0]).toBe('Echo: hello');
    expect(said[1]).toContain('5');
    expect(results[2]?.content).toContainEqual(
      expect.objectContaining({ type: 'image', media_type: 'image/png' }),
    );
    expect(said[3]).toMatch(/"temperature"/);
    expect(said[4]).toMatch(/a link to /);
    expect(said[5]).toMatch(/demo:\/\/resource/);
    expect(results[6]).toMatchObject({ is_error: true });
    const end = tools.events.find((event) => event.type === 'tool_execution_end');
    expect(end).toMatchObject({ display: expect.stringContaining('Echo: hello'), result_chars: 11 });
    expect(tools.report().sources).toContainEqual(
      expect.objectContaining({ name: 'mcp:every', state: 'ok' }),
    );
    expect(offered.every(({ idempotent }) => !idempotent)).toBe(true);
  });

  test('what it makes goes to people if the server may send files, and is named for the model', async () => {
    const media = await createTestMedia(later);
    const tools = make({ every: { ...stdio('everything'), send_files: true } }, { offer_max: 50 }, { media });
    await tools.forRun();
    const [image, blob] = await tools.call(
      ['get-tiny-image', {}],
      ['get-resource-reference', { resourceType: 'Blob', resourceId: 2 }],
    );
    expect(image?.attachments).toMatchObject([{ type: 'image', media_type: 'image/png' }]);
    expect(await media.get(image?.attachments?.[0]?.ref ?? '')).toMatchObject({ media_type: 'image/png' });
    expect(blob?.attachments).toMatchObject([
      { type: 'file', ref: expect.stringMatching(/^media:/) as string },
    ]);
    expect(texts(blob ? [blob] : [])[0]).toContain('that goes to the user with your answer');
  });

  test('progress reaches people, cancelling reaches the server, and a time-out is a result', async () => {
    const tools = make({ every: { ...stdio('everything'), timeout_ms: 1_500 } });
    const offered = await tools.forRun();
    const run = start({
      tools: offered,
      clock: systemClock,
      script: [{ calls: [['trigger-long-running-operation', { duration: 60, steps: 600 }]] }, 'done'],
    });
    await vi.waitFor(
      () => expect(run.events.map(({ type }) => type)).toContain('tool_execution_progress'),
      10_000,
    );
    const results = resultsIn(messagesOf(await run.result));
    expect(results).toMatchObject([{ is_error: true, content: expect.stringMatching(/1\.5|1500|time/i) }]);
    const cancelled = start({
      tools: offered,
      clock: systemClock,
      script: [{ calls: [['trigger-long-running-operation', { duration: 60, steps: 600 }]] }, 'done'],
      onEvent: (event) => {
        if (event.type === 'tool_execution_progress') cancelled.cancel();
      },
    });
    expect((await cancelled.result).stop).toBe('aborted');
    // It is still the same server, and it answers.
    expect(tools.report().sources).toContainEqual(expect.objectContaining({ state: 'ok' }));
  });

  test('filesystem and memory, with lists of what may be used', async () => {
    const dir = await folder();
    await writeFile(join(dir, 'note.txt'), 'remember the milk');
    const tools = make({
      files: {
        ...stdio('filesystem', dir),
        allow: ['read_*', 'list_*', 'write_file'],
        deny: ['write_file'],
        trust_hints: true,
      },
      memory: { ...stdio('memory'), env: { MEMORY_FILE_PATH: join(dir, 'memory.jsonl') } },
    });
    const offered = await tools.forRun();
    const names = offered.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['read_text_file', 'create_entities', 'read_graph']));
    expect(names).not.toContain('write_file');
    expect(names).not.toContain('move_file');
    expect(offered.find(({ name }) => name === 'read_text_file')?.idempotent).toBe(true);
    const said = texts(
      await tools.call(
        ['read_text_file', { path: join(dir, 'note.txt') }],
        ['read_text_file', { path: '/etc/passwd' }],
        [
          'create_entities',
          { entities: [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }] },
        ],
        ['search_nodes', { query: 'tea' }],
      ),
    );
    expect(said[0]).toContain('remember the milk');
    expect(said[1]).toMatch(/denied/);
    expect(said[3]).toContain('Ann');
    expect(tools.report().items.find(({ name }) => name === 'read_text_file')).toMatchObject({
      from: 'mcp:files',
    });
  });

  test('two servers with the same tools get their names in front', async () => {
    const [a, b] = [await folder(), await folder()];
    await writeFile(join(a, 'who'), 'this is a');
    await writeFile(join(b, 'who'), 'this is b');
    const { call } = make({ one: stdio('filesystem', a), two: stdio('filesystem', b) }, { offer_max: 100 });
    const said = texts(
      await call(
        ['one_read_text_file', { path: join(a, 'who') }],
        ['two_read_text_file', { path: join(b, 'who') }],
        ['one_read_text_file', { path: join(b, 'who') }],
      ),
    );
    expect(said).toEqual(['this is a', 'this is b', expect.stringMatching(/denied/)]);
  });

  test('killed in the middle of a call: the model is told, and the next call starts it again', async () => {
    const mark = `mark-${process.hrtime.bigint()}`;
    const tools = make({ every: { ...stdio('everything', 'stdio', mark) } });
    const offered = await tools.forRun();
    let killing: Promise<void> | undefined;
    const run = start({
      tools: offered,
      clock: systemClock,
      script: [
        { calls: [['trigger-long-running-operation', { duration: 60, steps: 600 }]] },
        { calls: [['echo', { message: 'again' }]] },
        'done',
      ],
      onEvent: (event) => {
        if (event.type !== 'tool_execution_progress') return;
        // Once: the next report of progress may be on its way already.
        killing ??= processesWith(mark).then((pids) => pids.forEach((pid) => process.kill(pid, 'SIGKILL')));
      },
    });
    const said = texts(resultsIn(messagesOf(await run.result)));
    await killing;
    expect(said[0]).toMatch(/ended during the call.*not known/);
    expect(said[1]).toBe('Echo: again');
    expect(tools.lines.map(({ message }) => message)).toContain(
      'MCP server is down; it is started again when it is needed',
    );
    expect(await processesWith(mark)).toHaveLength(1);
    expect(texts(await tools.call(['echo', { message: 'still' }]))).toEqual(['Echo: still']);
  });

  test('one that does not start costs the run nothing but its tools, and is not tried again at once', async () => {
    const tools = make({
      broken: {
        command: process.execPath,
        args: ['-e', 'process.exit(3)'],
        env: { KEY: 'very-secret-value' },
      },
      missing: { command: '/no/such/program' },
      every: stdio('everything'),
    });
    expect(texts(await tools.call(['echo', { message: 'hi' }]))).toEqual(['Echo: hi']);
    const { sources } = tools.report();
    expect(sources).toContainEqual({
      name: 'mcp:broken',
      state: 'down',
      detail: expect.stringMatching(/ended at once, with exit code 3/),
    });
    expect(sources).toContainEqual({
      name: 'mcp:missing',
      state: 'down',
      detail: expect.stringMatching(/ENOENT/),
    });
    const downs = () => tools.lines.filter(({ message }) => message.includes('is down')).length;
    const before = downs();
    await tools.forRun();
    expect(downs()).toBe(before);
    expect(JSON.stringify(tools.lines)).not.toContain('very-secret-value');
  });

  test('one that never says hello holds up a run once, for its time limit', async () => {
    const mute = {
      command: process.execPath,
      args: ['-e', 'setInterval(() => {}, 1000)'],
      start_timeout_ms: 500,
    };
    const tools = make({ mute });
    expect(await tools.forRun()).toEqual([]);
    const { sources } = tools.report();
    expect(sources).toContainEqual({
      name: 'mcp:mute',
      state: 'down',
      detail: expect.stringMatching(/timed out/i),
    });
    // Its time to be tried again has come: in the background.
    await vi.waitFor(
      async () => {
        expect(await tools.forRun()).toEqual([]);
        expect(tools.report().sources).toContainEqual({ name: 'mcp:mute', state: 'starting' });
      },
      { timeout: 5_000, interval: 100 },
    );
  });

  test('closing leaves no process behind, not even what a wrapper started', async () => {
    const mark = `mark-${process.hrtime.bigint()}`;
    // A shell that starts the server and, beside it, something that would outlive both.
    const command = `sleep 600 & exec -a ${mark}-sleep sleep 600 & "${process.execPath}" "${EVERYTHING}" stdio ${mark}; wait`;
    const tools = make({ every: { command: 'bash', args: ['-c', command, mark] } });
    await tools.call(['echo', { message: 'hi' }]);
    expect((await processesWith(mark)).length).toBeGreaterThanOrEqual(3);
    await tools.close();
    await vi.waitFor(async () => expect(await processesWith(mark)).toEqual([]), 5_000);
    await tools.close();
  });
});

describe('over HTTP', () => {
  async function freePort(): Promise<number> {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address() as { port: number };
    probe.close();
    await once(probe, 'close');
    return port;
  }

  async function serve(port: number): Promise<ChildProcess> {
    const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
      env: { PATH: process.env['PATH'], PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    later(() => child.kill('SIGKILL'));
    for await (const line of createInterface({ input: child.stderr })) if (/listening/.test(line)) break;
    return child;
  }

  test('everything works, is killed in the middle of a call, and works again when it is back', async () => {
    const port = await freePort();
    const first = await serve(port);
    const tools = make({
      far: { url: `http://127.0.0.1:${port}/mcp`, headers: { authorization: 'Bearer a-secret-token' } },
    });
    const offered = await tools.forRun();
    const said = texts(await tools.call(['echo', { message: 'hello' }], ['get-sum', { a: 1, b: 2 }]));
    expect(said).toEqual(['Echo: hello', expect.stringContaining('3')]);

    const run = start({
      tools: offered,
      clock: systemClock,
      script: [
        { calls: [['trigger-long-running-operation', { duration: 60, steps: 600 }]] },
        { calls: [['echo', { message: 'anybody?' }]] },
        'done',
      ],
      onEvent: (event) => {
        if (event.type === 'tool_execution_progress') first.kill('SIGKILL');
      },
    });
    const results = resultsIn(messagesOf(await run.result));
    expect(texts(results)[0]).toMatch(/ended during the call.*not known/);
    expect(results[1]).toMatchObject({ is_error: true });
    expect(JSON.stringify(results)).not.toContain('a-secret-token');
    expect(tools.report().sources).toContainEqual(
      expect.objectContaining({ name: 'mcp:far', state: 'down' }),
    );

    await serve(port);
    await vi.waitFor(
      async () => expect(texts(await tools.call(['echo', { message: 'back' }]))).toEqual(['Echo: back']),
      {
        timeout: 15_000,
        interval: 500,
      },
    );
  });

  test('a server that was restarted between two calls is greeted anew, and the call is made once', async () => {
    const port = await freePort();
    const first = await serve(port);
    const { call } = make({ far: { url: `http://127.0.0.1:${port}/mcp` } });
    await call(['echo', { message: 'one' }]);
    first.kill('SIGKILL');
    await once(first, 'exit');
    await serve(port);
    await vi.waitFor(
      async () => expect(texts(await call(['echo', { message: 'two' }]))).toEqual(['Echo: two']),
      {
        timeout: 15_000,
        interval: 500,
      },
    );
  });
});
