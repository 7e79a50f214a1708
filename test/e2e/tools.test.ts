// Tools on a real server: who may use which, tools from a folder that are read again on SIGHUP, and what the API lists.
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { processesWith } from '../fakes/toolset.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const { later, track } = useCleanups();

async function setUp(tools: Record<string, unknown>, admins: string[] = []) {
  const model = track(await startModelServer());
  const channels = { webhook: { type: 'webhook', api_keys: [API_KEY], admins } };
  const server = track(await startServer({ config: withModel(model.openaiUrl, { channels, tools }) }));
  const client = createWebhookClient(() => server.url);
  const ask = async (text: string, body: Record<string, unknown> = {}) =>
    (await client.send(text, { headers: { prefer: 'wait=20' }, body })).reply?.text;
  return { model, server, client, ask };
}

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-tools-'));
  later(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A web server that answers each request when `open` is called. */
async function gate() {
  const held: ServerResponse[] = [];
  const web = createServer((_request, response) => void held.push(response));
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  later(() => {
    web.closeAllConnections();
    web.close();
  });
  return {
    url: `http://127.0.0.1:${(web.address() as { port: number }).port}/`,
    reached: () => vi.waitFor(() => expect(held).toHaveLength(1), 10_000),
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

describe('rules', () => {
  test('refuse a person, and the model gets to explain it', async () => {
    const rules = [
      { tools: ['calculate'], roles: ['admin'], allow: true },
      { tools: ['calculate'], allow: false },
    ];
    const { server, ask } = await setUp({ rules }, ['ann']);
    const call = 'use:calculate{"expression":"6*7"}';
    expect(await ask(call, { sender: { id: 'ann' }, conversation: 'a' })).toBe('result: 42');
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
    const webhook = { ...config.channels.webhook, admins: [] };
    await writeFile(file, JSON.stringify({ ...config, channels: { webhook } }));
    server.child.kill('SIGHUP');
    expect(await server.line(/configuration re-read/)).toContain('channels.webhook.admins');
    expect(await ask(call, { sender: { id: 'ann' }, conversation: 'a' })).toMatch(/^result: .*not allowed/);
  });
});

describe('rules in a run that others write into', () => {
  test('hold for everybody whose message it has taken, whoever was first', async () => {
    const folder = await temporaryFolder();
    const { url, reached, open } = await gate();
    await writeFile(
      join(folder, 'wait.ts'),
      `export default { description: 'Waits.', parameters: { type: 'object' }, execute: async () => (await fetch('${url}')).text() };`,
    );
    const rules = [
      { tools: ['calculate'], roles: ['admin'], allow: true },
      { tools: ['calculate'], allow: false },
    ];
    const { model, client } = await setUp({ folder, rules }, ['ann', 'abe']);
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
});

describe('a folder', () => {
  test('brings tools, a bad file is named, and SIGHUP reads it again', async () => {
    const folder = await temporaryFolder();
    const code = (text: string) =>
      `export default { description: 'Greets.', parameters: { type: 'object' }, execute: () => '${text}' };`;
    await writeFile(join(folder, 'greet.ts'), code('hello'));
    await writeFile(join(folder, 'bad.ts'), 'export const x: number = 1;');
    const { server, ask } = await setUp({ folder });
    expect(await server.line(/this tool is left out/)).toContain('bad.ts');
    expect(await ask('use:greet')).toBe('result: hello');
    expect((await listed(server)).sources).toContainEqual(
      expect.objectContaining({ name: 'folder', state: 'broken' }),
    );

    await writeFile(join(folder, 'greet.ts'), code('good evening'));
    await writeFile(join(folder, 'bad.ts'), code('mended'));
    server.child.kill('SIGHUP');
    await vi.waitFor(async () => expect(await ask('use:bad')).toBe('result: mended'), { timeout: 10_000 });
    expect(await ask('use:greet')).toBe('result: good evening');
    expect(await listed(server)).toMatchObject({
      items: expect.arrayContaining([
        expect.objectContaining({ name: 'bad', from: 'folder', for: ['allowed for everyone'] }),
      ]),
      sources: expect.arrayContaining([{ name: 'folder', state: 'ok' }]),
    });
  });
});

describe('an MCP server', () => {
  test('is listed as idle, then as ok with its tools, and ends with the server', async () => {
    const mark = `drain-${process.hrtime.bigint()}`;
    const folder = await temporaryFolder();
    const file = join(
      import.meta.dirname,
      '../../node_modules/@modelcontextprotocol/server-memory/dist/index.js',
    );
    const env = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') };
    const memory = { command: process.execPath, args: [file, mark], env };
    const { server, ask } = await setUp({ mcp: { servers: { memory } } });
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
    expect(await server.kill('SIGTERM')).toBe(0);
    expect(await processesWith(mark)).toEqual([]);
  });
});

describe('find_tools', () => {
  test('leaves the prompt as it was, byte by byte, whatever is behind it', async () => {
    const folder = await temporaryFolder();
    const server = join(import.meta.dirname, '../fakes/mcp-server.ts');
    const own = { command: process.execPath, args: [server, join(folder, 'record')] };
    const { model, ask } = await setUp({ offer_max: 5, mcp: { servers: { own } } });
    expect(await ask('use:find_tools{"query":"environment"}')).toMatch(/^result: \{"name":"env"/);
    expect(await ask('use:find_tools{"call":"grow"}')).toBe('result: grown');
    await vi.waitFor(async () =>
      expect(await ask('use:find_tools{"call":"extra-9"}')).toMatch(/^result: extra-9/),
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

describe('skills', () => {
  test('are in the prompt of the next run, without a restart', async () => {
    const folder = await temporaryFolder();
    const { model, ask } = await setUp({ skills: folder });
    await ask('hello');
    await mkdir(join(folder, 'refund'));
    await writeFile(
      join(folder, 'refund', 'SKILL.md'),
      '---\ndescription: How refunds are made.\n---\nAsk for the number.',
    );
    expect(await ask('use:read_skill{"name":"refund"}')).toBe('result: Ask for the number.');
    expect(model.requests[0]?.raw).not.toContain('read_skill');
    expect(model.requests[1]?.raw).toContain('- refund: How refunds are made.');
  });
});
