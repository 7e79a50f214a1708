// Tools on a real server: who may use which, tools from a folder that are read again on SIGHUP, and what the API lists.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { useCleanups, type Cleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { processesWith } from '../fakes/toolset.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';
import { startWebServer } from '../fakes/web-server.ts';

const PATIENCE = { timeout: 20_000 };

async function setUp({ track }: Cleanups, tools: Record<string, unknown>, admins: string[] = []) {
  const model = track(await startModelServer());
  const channels = { webhook: { type: 'webhook', api_keys: [API_KEY], admins } };
  const server = track(await startServer({ config: withModel(model.openaiUrl, { channels, tools }) }));
  const client = createWebhookClient(() => server.url);
  const ask = async (text: string, body: Record<string, unknown> = {}) =>
    (await client.send(text, { headers: { prefer: 'wait=20' }, body })).reply?.text;
  return { model, server, client, ask };
}

async function temporaryFolder({ later }: Cleanups): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-tools-'));
  later(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A web server that answers each request when `open` is called. */
async function gate({ track }: Cleanups) {
  const held: ServerResponse[] = [];
  const web = track(await startWebServer((_request, response) => void held.push(response)));
  return {
    url: `${web.url}/`,
    reached: () => vi.waitFor(() => expect(held).toHaveLength(1), PATIENCE),
    open: () => held.splice(0).forEach((response) => response.end('open')),
  };
}

async function listed(server: ServerProcess) {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const response = await fetch(`${server.url}/api/tools`, { headers });
  return (await response.json()) as {
    items: { name: string; from: string; for: string[] }[];
    sources: { name: string; state: string; detail?: string }[];
  };
}

const greet = (text: string) =>
  `export default { description: 'Greets.', parameters: { type: 'object' }, execute: () => '${text}' };`;

describe('one server', () => {
  const shared = useCleanups(afterAll);
  const mark = `drain-${process.hrtime.bigint()}`;
  const memoryServer = join(
    import.meta.dirname,
    '../../node_modules/@modelcontextprotocol/server-memory/dist/index.js',
  );
  let folder: string;
  let skills: string;
  let web: Awaited<ReturnType<typeof gate>>;
  let bench: Awaited<ReturnType<typeof setUp>>;
  let model: ModelServer;
  beforeAll(async () => {
    folder = await temporaryFolder(shared);
    skills = await temporaryFolder(shared);
    web = await gate(shared);
    await writeFile(
      join(folder, 'wait.ts'),
      `export default { description: 'Waits.', parameters: { type: 'object' }, execute: async () => (await fetch('${web.url}')).text() };`,
    );
    await writeFile(join(folder, 'greet.ts'), greet('hello'));
    await writeFile(join(folder, 'bad.ts'), 'export const x: number = 1;');
    const memory = {
      command: process.execPath,
      args: [memoryServer, mark],
      env: { MEMORY_FILE_PATH: join(await temporaryFolder(shared), 'memory.jsonl') },
    };
    const rules = [
      { tools: ['calculate'], roles: ['admin'], allow: true },
      { tools: ['calculate'], allow: false },
    ];
    bench = await setUp(shared, { folder, skills, rules, mcp: { servers: { memory } } }, [
      'amy',
      'ann',
      'abe',
    ]);
  });
  beforeEach(() => {
    model = bench.model.renewed();
  });

  // First: nothing has been asked of it yet.
  test('an MCP server is listed as idle, then as ok with its tools', async () => {
    const { server, ask } = bench;
    expect((await listed(server)).sources).toContainEqual({ name: 'mcp:memory', state: 'idle' });
    expect(await ask('use:read_graph')).toMatch(/^result: .*entities/s);
    const { items, sources } = await listed(server);
    expect(items).toContainEqual(
      expect.objectContaining({ name: 'read_graph', from: 'mcp:memory', idempotent: false }),
    );
    expect(sources).toContainEqual({
      name: 'mcp:memory',
      state: 'ok',
      detail: expect.stringMatching(/tools/),
    });
    expect(await processesWith(mark)).toHaveLength(1);
  });

  test('rules refuse a person, and the model gets to explain it', async () => {
    const { server, ask } = bench;
    const call = 'use:calculate{"expression":"6*7"}';
    expect(await ask(call, { sender: { id: 'amy' }, conversation: 'a' })).toBe('result: 42');
    expect(await ask(call, { sender: { id: 'bob' }, conversation: 'b' })).toMatch(
      /^result: .*calculate is not allowed/,
    );
    expect(await ask('use:now', { sender: { id: 'bob' }, conversation: 'b' })).toMatch(/^result: \d{4}-/);
    const { items } = await listed(server);
    expect(items.find(({ name }) => name === 'calculate')?.for).toEqual([
      'allowed for roles admin',
      'refused for everyone else',
    ]);
    expect((await fetch(`${server.url}/api/tools`)).status).toBe(401);

    // Taken away while the server runs.
    const file = join(server.dataDir, 'overlay.yaml');
    const config = JSON.parse(await readFile(file, 'utf8')) as { channels: { webhook: object } };
    const webhook = { ...config.channels.webhook, admins: ['ann', 'abe'] };
    expect(await server.configure({ ...config, channels: { webhook } })).toContain('channels.webhook.admins');
    expect(await ask(call, { sender: { id: 'amy' }, conversation: 'a' })).toMatch(/^result: .*not allowed/);
  });

  test('rules hold in a run that others write into, for everybody whose message it has taken, whoever was first', async () => {
    const { client } = bench;
    const { reached, open } = web;
    const calculated = async (first: string, second: string) => {
      const conversation = `${first}-${second}`;
      const say = (text: string, id: string) =>
        client.send(text, { conversation, id: `${conversation}-${id}`, body: { sender: { id } } });
      model.enqueue(
        { calls: [{ name: 'wait', arguments: '{}' }] },
        { calls: [{ name: 'calculate', arguments: '{"expression":"6*7"}' }] },
      );
      await say('please calculate', first);
      await reached();
      await say('please go on', second);
      open();
      const [one, two] = await Promise.all(
        [first, second].map((id) => client.settled(`${conversation}-${id}`)),
      );
      expect(one?.reply, 'one run').toEqual(two?.reply);
      return one?.reply?.text;
    };
    // A member's message must not act with an administrator's rights, nor be lent them by what one writes next.
    expect(await calculated('ann', 'bob')).toMatch(/calculate is not allowed/);
    expect(await calculated('bob', 'ann')).toMatch(/calculate is not allowed/);
    expect(await calculated('ann', 'abe')).toBe('result: 42');
  });

  test('a folder brings tools, a bad file is named, and SIGHUP reads it again', async () => {
    const { server, ask } = bench;
    expect(await server.line(/this tool is left out/)).toContain('bad.ts');
    expect(await ask('use:greet')).toBe('result: hello');
    expect((await listed(server)).sources).toContainEqual(
      expect.objectContaining({ name: 'folder', state: 'broken' }),
    );

    await writeFile(join(folder, 'greet.ts'), greet('good evening'));
    await writeFile(join(folder, 'bad.ts'), greet('mended'));
    server.child.kill('SIGHUP');
    await vi.waitFor(async () => expect(await ask('use:bad')).toBe('result: mended'), PATIENCE);
    expect(await ask('use:greet')).toBe('result: good evening');
    expect(await listed(server)).toMatchObject({
      items: expect.arrayContaining([
        expect.objectContaining({ name: 'bad', from: 'folder', for: ['allowed for everyone'] }),
      ]),
      sources: expect.arrayContaining([{ name: 'folder', state: 'ok' }]),
    });
  });

  test('skills are in the prompt of the next run, without a restart', async () => {
    const { ask } = bench;
    await ask('hello');
    await mkdir(join(skills, 'refund'));
    await writeFile(
      join(skills, 'refund', 'SKILL.md'),
      '---\ndescription: How refunds are made.\n---\nAsk for the number.',
    );
    expect(await ask('use:read_skill{"name":"refund"}')).toBe('result: Ask for the number.');
    expect(model.requests[0]?.raw).not.toContain('read_skill');
    expect(model.requests[1]?.raw).toContain('- refund: How refunds are made.');
  });

  // Last: it ends the server.
  test('an MCP server ends with the server', async () => {
    expect(await processesWith(mark)).toHaveLength(1);
    expect(await bench.server.kill('SIGTERM')).toBe(0);
    expect(await processesWith(mark)).toEqual([]);
  });
});

describe('find_tools', () => {
  const cleanups = useCleanups();

  test('leaves the prompt as it was, byte by byte, whatever is behind it', async () => {
    const folder = await temporaryFolder(cleanups);
    const server = join(import.meta.dirname, '../fakes/mcp-server.ts');
    const own = { command: process.execPath, args: [server, join(folder, 'record')] };
    const { model, ask } = await setUp(cleanups, { offer_max: 5, mcp: { servers: { own } } });
    expect(await ask('use:find_tools{"query":"environment"}')).toMatch(/^result: \{"name":"env"/);
    expect(await ask('use:find_tools{"call":"grow"}')).toBe('result: grown');
    await vi.waitFor(
      async () => expect(await ask('use:find_tools{"call":"extra-9"}')).toMatch(/^result: extra-9/),
      PATIENCE,
    );
    const offered = model.requests.map(({ raw }) => {
      const tools = JSON.stringify((JSON.parse(raw) as { tools: { function: { name: string } }[] }).tools);
      expect(raw).toContain(`"tools":${tools}`);
      return tools;
    });
    expect(offered[0]).toContain('"find_tools"');
    expect(offered[0]).not.toMatch(/extra-9|refuse/);
    expect([...new Set(offered)]).toHaveLength(1);
    const starts = model.requests.map(({ raw }) => raw.slice(0, raw.indexOf('environment')));
    for (const { raw } of model.requests) expect(raw.startsWith(starts[0] ?? '?')).toBe(true);
  });
});
