// Tools from a folder: real files, loaded by Node as they are; bad ones reported by name; the guide's own code among them.
import { mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import { diagnose } from '../../src/doctor/index.ts';
import type { Tool } from '../../src/ports/tool.ts';
import { createFolderSource } from '../../src/tools/folder.ts';
import type { SourceTool } from '../../src/tools/source.ts';
import { checkTools } from '../../src/tools/check.ts';
import { brief, messagesOf, play } from '../fakes/agent.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { recordingLog } from '../fakes/log.ts';
import { createTestMedia } from '../fakes/media.ts';
import { startWebServer } from '../fakes/web-server.ts';

const { later } = useCleanups();
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-tools-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const GOOD = `export default {
  description: 'Says hello.',
  parameters: { type: 'object' },
  execute: () => 'hello',
};`;

const check = (tool: Tool, args: Record<string, unknown>) => checkArguments(tool, args, false);

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function loaded(loadTimeoutMs = 5_000) {
  const { log, lines } = recordingLog();
  const source = createFolderSource({ folder, check, log, loadTimeoutMs });
  await source.reload();
  const tools = () => (source.tools() as readonly SourceTool[]).map(({ tool }) => tool.name);
  return { source, lines, tools };
}

/** The n-th TypeScript example of the guide. */
async function example(n: number): Promise<string> {
  const text = await readFile(join(import.meta.dirname, '../../docs/writing-a-tool.md'), 'utf8');
  const code = [...text.matchAll(/^```ts\n(.*?)^```/gmsu)][n]?.[1];
  if (code === undefined) throw new Error(`the guide has no example ${n}`);
  return code;
}

describe('a folder of tools', () => {
  it('loads what is good and reports what is not, each by name', async () => {
    const bad: [string, string, RegExp][] = [
      ['syntax.ts', 'export default {', /./],
      ['throws.mjs', `throw new Error('no database');`, /no database/],
      ['nothing.ts', 'export const x = 1;', /no default export/],
      ['silent.ts', `export default { parameters: { type: 'object' }, execute() {} };`, /description/],
      ['shapeless.ts', `export default { description: 'x', execute() {} };`, /JSON Schema/],
      ['idle.ts', `export default { description: 'x', parameters: { type: 'object' } };`, /execute/],
      ['bad name.ts', GOOD, /letters, digits/],
      [
        'schema.ts',
        GOOD.replace(`'object' }`, `'object', properties: { a: { type: 'nonsense' } } }`),
        /JSON Schema.*type/,
      ],
      ['stage.ts', GOOD.replace('execute', `stage: 'later', execute`), /stage must be/],
      ['order.ts', GOOD.replace('execute', `execution: 'both', execute`), /execution must be/],
      ['time.ts', GOOD.replace('execute', `timeoutMs: '5s', execute`), /timeoutMs must be/],
      ['twin.ts', GOOD.replace('description', `name: 'good', description`), /taken/],
    ];
    for (const [file, text] of bad) await writeFile(join(folder, file), text);
    await writeFile(join(folder, 'good.ts'), GOOD);
    await writeFile(join(folder, '_helper.ts'), 'export const x = 1;');
    await writeFile(join(folder, 'notes.md'), 'no tool');
    await symlink(join(folder, 'gone.ts'), join(folder, 'link.ts'));
    bad.push(['link.ts', '', /ENOENT/]);
    const { source, tools, lines } = await loaded();
    expect(tools()).toEqual(['good']);
    for (const [file, , problem] of bad) expect(source.problems().get(file), file).toMatch(problem);
    expect(source.problems().size).toBe(bad.length);
    const named = lines.filter(({ level }) => level === 'error').map(({ fields }) => String(fields['file']));
    expect(named.sort()).toEqual(bad.map(([file]) => file).sort());
    expect(source.health()).toMatchObject([
      { state: 'broken', detail: expect.stringContaining('throws.mjs: no database') },
    ]);
  });

  it('outlives files that end the process or never come to an end', async () => {
    const bad: [string, string, RegExp][] = [
      ['a-exits.ts', 'process.exit(0);', /it ends the process \(exit code 0\)/],
      [
        'b-waits.ts',
        'await new Promise(() => setInterval(() => {}, 1_000));',
        /did not load within 0\.4 seconds/,
      ],
      ['c-spins.ts', 'for (;;);', /did not load within 0\.4 seconds/],
      [
        'd-later.ts',
        `setTimeout(() => { throw new Error('later'); });\nawait new Promise((resolve) => setTimeout(resolve, 100));\n${GOOD}`,
        /it ends the process/,
      ],
    ];
    for (const [file, text] of bad) await writeFile(join(folder, file), text);
    await writeFile(join(folder, 'a.ts'), GOOD);
    await writeFile(join(folder, 'z.ts'), GOOD);
    const { source, tools } = await loaded(400);
    expect(tools()).toEqual(['a', 'z']);
    for (const [file, , problem] of bad) expect(source.problems().get(file), file).toMatch(problem);
    // What has not changed is not tried again.
    const before = source.tools();
    await Promise.all(bad.map(([file]) => rm(join(folder, file))));
    await source.reload();
    expect(source.tools()).toBe(before);
    expect(source.health()).toEqual([{ name: 'folder', state: 'ok' }]);
  });

  it('outlives files that speak to the server as if they were Node, or the trial itself', async () => {
    // In the trial only: the process of the tests has a parent as well.
    const inTrial = (act: string) => `if (process.argv[1].includes('trial')) { ${act} }\n${GOOD}`;
    const everyLine = (act: string) => `const fs = await import('node:fs');
      for (let fd = 3; fd < 40; fd += 1) try { if (fs.fstatSync(fd).isSocket()) ${act} } catch {}`;
    const odd: [string, string][] = [
      ['a-handle.ts', inTrial(`process.send?.({ cmd: 'NODE_HANDLE_ACK' });`)],
      ['b-ready.ts', inTrial(`process.send?.('ready'); process.send?.({ url: 'x' });`)],
    ];
    const garbage = JSON.stringify(`garbage\n{"cmd":"NODE_HANDLE_ACK"}\n\u0000${'\u00ff'.repeat(20)}`);
    const bad: [string, string][] = [
      ['c-garbage.ts', inTrial(everyLine(`fs.writeSync(fd, ${garbage});`))],
      ['d-closes.ts', inTrial(everyLine('fs.closeSync(fd);'))],
    ];
    for (const [file, text] of [...odd, ...bad]) await writeFile(join(folder, file), text);
    await writeFile(join(folder, 'z.ts'), GOOD);
    const { source, tools } = await loaded(1_000);
    expect(tools()).toEqual(['a-handle', 'b-ready', 'z']);
    expect([...source.problems().keys()].toSorted()).toEqual(bad.map(([file]) => file));
  });

  it('is read again: changed, added and removed files; what did not change stays the same object', async () => {
    const file = join(folder, 'greet.ts');
    await writeFile(file, GOOD);
    const { source, tools } = await loaded();
    const before = source.tools();
    await source.reload();
    expect(source.tools()).toBe(before);
    await writeFile(file, GOOD.replace('Says hello.', 'Says goodbye.'));
    await utimes(file, new Date(), new Date(Date.now() + 5_000));
    await writeFile(join(folder, 'more.js'), GOOD);
    await source.reload();
    expect(tools()).toEqual(['greet', 'more']);
    expect(source.tools()).toMatchObject([{ tool: { description: 'Says goodbye.' } }, {}]);
    await rm(file);
    await source.reload();
    expect(tools()).toEqual(['more']);
  });

  it('that is missing is reported, and there are no tools', async () => {
    const { log } = recordingLog();
    const source = createFolderSource({ folder: join(folder, 'none'), check, log });
    await source.reload();
    expect(source.tools()).toEqual([]);
    expect(source.health()).toMatchObject([{ state: 'broken', detail: expect.stringContaining('ENOENT') }]);
  });

  it('is checked by the doctor, with programs of MCP servers and names that do not exist', async () => {
    await writeFile(join(folder, 'good.ts'), GOOD);
    await writeFile(join(folder, 'broken.ts'), 'export const x = 1;');
    const servers = {
      here: { command: 'node' },
      gone: { command: 'no-such-program' },
      far: { url: 'http://mcp.test/mcp' },
    };
    const settings = configSchema.parse({ tools: { enabled: ['nwo'], folder, mcp: { servers } } }).tools;
    const found = await all(checkTools({ settings, builtIn: [], check, path: process.env['PATH'] ?? '' }));
    const wrong = found.filter(({ state }) => state === 'wrong').map(({ part, text }) => `${part}: ${text}`);
    expect(wrong).toEqual([
      expect.stringMatching(/^tools: .*"nwo"/),
      expect.stringMatching(/^tool broken\.ts: .*default export/),
      expect.stringMatching(/^mcp server gone: .*no-such-program/),
    ]);
    expect(found.map(({ text }) => text)).toContain(`from ${folder}: good`);
  });

  it('is part of what `npm run doctor` looks at', async () => {
    await writeFile(join(folder, 'broken.ts'), 'export const x = 1;');
    const config = join(folder, 'local.yaml');
    await writeFile(
      config,
      JSON.stringify({ server: { port: 0 }, storage: { data_dir: folder }, tools: { folder } }),
    );
    const found = await all(diagnose({ env: { LANEKEEPER_CONFIG: config }, cwd: folder }));
    expect(found).toContainEqual({
      state: 'wrong',
      part: 'tool broken.ts',
      text: expect.stringMatching(/default export/),
    });
  });
});

describe('the guide', () => {
  it('builds a tool in ten lines that a run can call', async () => {
    const code = await example(0);
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(10);
    await writeFile(join(folder, 'dice.ts'), code);
    const { source } = await loaded();
    expect([...source.problems()]).toEqual([]);
    const tools = [...(await source.tools())].map(({ tool }) => tool);
    const script = [
      { calls: [['dice', { sides: 6 }] as [string, object]] },
      { calls: [['dice', { sides: 1 }] as [string, object]] },
      'done',
    ];
    const { result } = await play({ tools, script: script as never });
    const said = brief(messagesOf(result));
    expect(said).toContainEqual(expect.stringMatching(/^result It shows [1-6]\.$/));
    expect(said).toContainEqual(expect.stringMatching(/^error .*sides/s));
  });

  it('has a longer example that works as well', async () => {
    const stock = await startWebServer((request, response) => {
      response.statusCode = request.url === '/stock/AB1' ? 200 : 404;
      response.end(JSON.stringify({ pieces: 12 }));
    });
    try {
      await writeFile(join(folder, 'stock.ts'), (await example(1)).replace(':8080', `:${stock.port}`));
      const { source } = await loaded();
      const tools = [...(await source.tools())].map(({ tool }) => tool);
      expect(tools).toMatchObject([{ name: 'stock', idempotent: true, execution: 'parallel' }]);
      const { result, events } = await play({
        tools,
        script: [
          { calls: [['stock', { article: 'AB1' }]] },
          { calls: [['stock', { article: 'AB2' }]] },
          'done',
        ],
      });
      expect(brief(messagesOf(result))).toContain('result 12');
      expect(brief(messagesOf(result))).toContain("error The stock can't be read now (404).");
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'tool_execution_progress', text: 'asking for AB1' }),
      );
    } finally {
      await stock.close();
    }
  });

  it('has one that makes a file, which goes with the answer', async () => {
    await writeFile(join(folder, 'squares.ts'), await example(2));
    const { source } = await loaded();
    const tools = [...(await source.tools())].map(({ tool }) => tool);
    const media = await createTestMedia(later);
    const { result } = await play({ tools, media, script: [{ calls: [['squares', { count: 3 }]] }, 'done'] });
    expect(result.attachments).toMatchObject([{ type: 'file', name: 'squares.csv', media_type: 'text/csv' }]);
    const file = await media.get(result.attachments?.[0]?.ref ?? '');
    expect(file?.bytes.toString()).toBe('n,square\n1,1\n2,4\n3,9');
  });
});
