// kill -9 while a tool of each kind runs, and right after its result was written down: what has finished never runs again,
// what may have run is run again only where that is harmless, and no process of an MCP server is left behind.
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const ENTRY = join(import.meta.dirname, '../fakes/fault-server.ts');
const EVERYTHING = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);

const { later } = useCleanups();

interface Kind {
  /** Settings of `tools`. */
  tools: Record<string, unknown>;
  /** What the user says: a call of the tool that hangs the first time, if it may. */
  text: string;
  /** How often the tool was executed. */
  executions(): Promise<number>;
}

const dataFolder = async (): Promise<string> => {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-tools-kill-'));
  later(() => rm(dir, { recursive: true, force: true }));
  return dir;
};

const linesIn = async (file: string, pattern: RegExp): Promise<number> => {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => pattern.test(line)).length;
};

async function fetching(hangs: boolean): Promise<Kind> {
  let hits = 0;
  const server = createServer((_request, response: ServerResponse) => {
    hits++;
    if (hangs && hits === 1) return;
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end(`page ${hits}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  later(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as { port: number };
  return {
    tools: { enabled: ['web_fetch'], web_fetch: { allow_private: true } },
    text: `use:web_fetch{"url":"http://127.0.0.1:${port}/"}`,
    executions: async () => hits,
  };
}

async function dropIn(hangs: boolean, idempotent: boolean): Promise<Kind> {
  const dir = await dataFolder();
  const file = join(dir, 'runs');
  await writeFile(
    join(dir, 'note.ts'),
    `import { appendFileSync, readFileSync } from 'node:fs';
     export default {
       description: 'Notes.', parameters: { type: 'object' }, idempotent: ${idempotent},
       async execute(_args: object, { callId }: { callId: string }) {
         appendFileSync(${JSON.stringify(file)}, callId + '\\n');
         const runs = readFileSync(${JSON.stringify(file)}, 'utf8').trim().split('\\n').length;
         if (${hangs} && runs === 1) await new Promise(() => {});
         return 'page ' + runs;
       },
     };`,
  );
  return { tools: { folder: dir }, text: 'use:note', executions: () => linesIn(file, /./) };
}

async function overMcp(hangs: boolean): Promise<Kind & { mark: string }> {
  const dir = await dataFolder();
  const file = join(dir, 'sent');
  const mark = `kill-${process.hrtime.bigint()}`;
  // What is sent to the unmodified server is written down on the way.
  const command = `tee -a "${file}" | "${process.execPath}" "${EVERYTHING}" stdio ${mark}`;
  return {
    mark,
    tools: { mcp: { servers: { every: { command: 'bash', args: ['-c', command] } } } },
    text: hangs
      ? 'use:trigger-long-running-operation{"duration":60,"steps":60}'
      : 'use:echo{"message":"page 1"}',
    executions: () => linesIn(file, /"method":"tools\/call"/),
  };
}

async function setUp(kind: Kind, faultPoint: string) {
  const model = await startModelServer();
  later(() => model.close());
  const dataDir = await dataFolder();
  const config = withModel(model.openaiUrl, {
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    tools: kind.tools,
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
  });
  const env = { FAULT_POINT: faultPoint, FAULT_ONCE: join(dataDir, 'fault') };
  const launch = async () => {
    const server = await startServer({ entry: ENTRY, config, dataDir, env });
    later(() => server.close());
    return server;
  };
  const first = await launch();
  let now: ServerProcess = first;
  const client = createWebhookClient(() => now.url);
  await client.send(kind.text, { id: 'm1' });
  return {
    first,
    async restart() {
      now = await launch();
      return (await client.settled('m1')).reply?.text;
    },
  };
}

async function running(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return lines.filter((line) => line.includes(mark));
}

describe('kill -9 after the result is in the journal', () => {
  test.each([
    ['web_fetch', () => fetching(false)],
    ['a tool of the folder', () => dropIn(false, false)],
    ['a tool of the folder that may run twice', () => dropIn(false, true)],
    ['a tool of an MCP server', () => overMcp(false)],
  ])('%s does not run again', async (_name, make) => {
    const kind = await make();
    const { first, restart } = await setUp(kind, 'after_tool_journal');
    await first.ended;
    expect(await restart()).toMatch(/^result: .*page 1/s);
    expect(await kind.executions()).toBe(1);
  });
});

describe('kill -9 while it runs', () => {
  test.each([
    ['web_fetch', () => fetching(true), 2, /page 2/],
    ['a tool of the folder that may run twice', () => dropIn(true, true), 2, /page 2/],
    ['a tool of the folder', () => dropIn(true, false), 1, /may|not known/],
    ['a tool of an MCP server', () => overMcp(true), 1, /may|not known/],
  ])('%s runs again only if it is harmless', async (_name, make, executions, reply) => {
    const kind = await make();
    const { first, restart } = await setUp(kind, '');
    await vi.waitFor(async () => expect(await kind.executions()).toBe(1), 20_000);
    await first.kill('SIGKILL');
    if ('mark' in kind) {
      await vi.waitFor(async () => expect(await running(String(kind.mark))).toEqual([]), 10_000);
    }
    expect(await restart()).toMatch(reply);
    expect(await kind.executions()).toBe(executions);
  });
});
