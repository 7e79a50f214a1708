// What a run is offered: names, order, the limit and find_tools, and that rules reach through it.
import { afterEach, describe, expect, it } from 'vitest';
import { PROMPT_FOLDER } from '../../config/load.ts';
import { createPromptSource } from '../../config/prompt.ts';
import { configSchema } from '../../config/schema.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import { builtInTools, createToolset, type Toolset } from '../../src/tools/index.ts';
import { nameTools } from '../../src/tools/names.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { systemClock } from '../../src/system-clock.ts';
import { brief, messagesOf, play, tool } from '../fakes/agent.ts';
import { recordingLog } from '../fakes/log.ts';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

function toolset(settings: Record<string, unknown>, builtIn: Tool[] = builtInTools(systemClock)): Toolset {
  const { log } = recordingLog();
  const { tools } = configSchema.parse({ tools: settings });
  const made = createToolset({
    settings: tools,
    builtIn,
    check: (of, args) => checkArguments(of, args, false),
    clock: systemClock,
    log,
  });
  cleanups.push(() => made.close());
  return made;
}

const numbered = (count: number): Tool[] =>
  Array.from({ length: count }, (_item, n) =>
    tool(`t${String(n).padStart(2, '0')}`, async () => success(`ran ${n}`), {
      description: n === 29 ? 'Sends a postcard.' : `Does thing ${n}.`,
      parameters: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
    }),
  );

describe('the tools of a run', () => {
  it('are the harmless ones by default, under 1.5 KB, the same objects each time', async () => {
    const made = toolset({});
    const tools = await made.forRun();
    expect(tools.map(({ name }) => name)).toEqual(['calculate', 'now']);
    expect(Buffer.byteLength(JSON.stringify(tools))).toBeLessThan(1_500);
    expect(await made.forRun()).toBe(tools);
    expect(made.refusal()).toBeUndefined();
    expect(made.report().items[0]).toMatchObject({
      name: 'calculate',
      from: 'built-in',
      for: ['allowed for everyone'],
      idempotent: true,
      reached: 'directly',
    });
  });

  it('and the prompt that is shipped are under 4 KB together', async () => {
    const tools = await toolset({}).forRun();
    const prompt = await createPromptSource(PROMPT_FOLDER).read();
    const offered = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
    expect(Buffer.byteLength(prompt) + Buffer.byteLength(JSON.stringify(offered))).toBeLessThan(4_096);
  });

  it('are at most offer_max; the rest is found and called through find_tools', async () => {
    const all = numbered(30);
    const made = toolset({ enabled: all.map(({ name }) => name) }, all);
    const tools = await made.forRun();
    expect(tools).toHaveLength(24);
    expect(tools.at(-1)?.name).toBe('find_tools');
    expect(await made.forRun()).toBe(tools);
    const { result } = await play({
      tools,
      script: [
        { calls: [['find_tools', { query: 'send a postcard' }]] },
        { calls: [['find_tools', { call: 't29', arguments: {} }]] },
        { calls: [['find_tools', { call: 't29', arguments: { to: 'Bob' } }]] },
        { calls: [['find_tools', { call: 't00', arguments: { to: 'Bob' } }]] },
        'done',
      ],
    });
    const said = brief(messagesOf(result));
    expect(said).toContainEqual(expect.stringMatching(/^result \{"name":"t29".*"required":\["to"\]/));
    expect(said).toContainEqual(expect.stringMatching(/^error .*schema.*to/s));
    expect(said).toContain('result ran 29');
    expect(said).toContainEqual(expect.stringMatching(/^error There is no tool "t00" to be found/));
  });

  it('keep their prefix when more are behind find_tools', async () => {
    const prefix = async (count: number) => {
      const all = numbered(count);
      const offered = await toolset({ enabled: all.map(({ name }) => name) }, all).forRun();
      return JSON.stringify(
        offered.map(({ name, description, parameters }) => ({ name, description, parameters })),
      );
    };
    expect(await prefix(40)).toBe(await prefix(26));
  });

  it('are refused through find_tools as they are by themselves', async () => {
    const all = numbered(30);
    const made = toolset(
      { enabled: all.map(({ name }) => name), rules: [{ tools: ['t29'], allow: false }] },
      all,
    );
    const find = (await made.forRun()).at(-1)!;
    const user = { conversation: 'web:c', people: [{ id: 'ann' }] };
    expect(made.refusal()?.(find, { call: 't29' }, user)).toMatch(/t29 is not allowed/);
    expect(made.refusal()?.(find, { call: 't28' }, user)).toBeUndefined();
    expect(made.refusal()?.(find, { query: 'postcard' }, user)).toBeUndefined();
  });
});

describe('names', () => {
  const named = (...tools: [string, string][]) =>
    nameTools(tools.map(([from, name]) => ({ from, tool: tool(name) }))).map((item) => item.tool.name);

  it('stay as they are while each is used once', () => {
    expect(named(['built-in', 'now'], ['mcp:a', 'read'], ['mcp:b', 'write'])).toEqual([
      'now',
      'read',
      'write',
    ]);
  });

  it('are prefixed by their sources when two want the same, apart from built-in ones', () => {
    expect(named(['built-in', 'now'], ['mcp:a', 'now'], ['mcp:b', 'now'])).toEqual(['now', 'a_now', 'b_now']);
  });

  it('are made valid for vendors, and each once', () => {
    const [long = '', dotted, other] = named(
      ['mcp:a', 'x'.repeat(100)],
      ['mcp:a', 'files.read'],
      ['mcp:a', 'files/read'],
    );
    expect(long).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(dotted).toMatch(/^a_files_read$/);
    expect(other).toMatch(/^a_files_read_[0-9a-f]{8}$/);
  });
});
