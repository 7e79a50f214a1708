// What a run is offered: names, order, the limit and find_tools, and that rules reach through it.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PROMPT_FOLDER } from '../../config/load.ts';
import { createPromptSource } from '../../config/prompt.ts';
import { configSchema } from '../../config/schema.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import { builtInTools, createToolset, type Toolset } from '../../src/tools/index.ts';
import { nameTools } from '../../src/tools/names.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { systemClock } from '../../src/system-clock.ts';
import type { AgentHooks } from '../../src/agent/index.ts';
import { brief, messagesOf, play, steps, tool, type ScriptedCall } from '../fakes/agent.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';

const { later, track } = useCleanups();

function toolset(settings: Record<string, unknown>, builtIn: Tool[] = builtInTools(systemClock)): Toolset {
  const { tools } = configSchema.parse({ tools: settings });
  const made = createToolset({
    settings: tools,
    builtIn,
    check: (of, args) => checkArguments(of, args, false),
    clock: systemClock,
    log: silentLog,
  });
  return track(made);
}

async function folder(files: Record<string, string>): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'lanekeeper-set-'));
  later(() => rm(made, { recursive: true, force: true }));
  for (const [file, text] of Object.entries(files)) {
    await mkdir(join(made, file, '..'), { recursive: true });
    await writeFile(join(made, file), text);
  }
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
    const { result, events } = await play({
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
    const ends = events.flatMap((event) => (event.type === 'tool_execution_end' ? [event] : []));
    expect(ends[0]).toMatchObject({ name: 'find_tools', display: '"send a postcard": t29' });
    expect(said).toContainEqual(expect.stringMatching(/^result \{"name":"t29".*"required":\["to"\]/));
    expect(said).toContainEqual(expect.stringMatching(/^error .*schema.*to/s));
    expect(said).toContain('result ran 29');
    expect(said).toContainEqual(expect.stringMatching(/^error There is no tool "t00" to be found/));
  });

  it('are stopped at their own time limit through find_tools too', async () => {
    const slow = tool(
      'u_slow',
      (_args, { signal }) =>
        new Promise((_done, failed) => signal.addEventListener('abort', () => failed(signal.reason))),
      { timeoutMs: 50 },
    );
    const endless = tool('u_endless', undefined, { timeoutMs: 0 });
    const all = [...numbered(2), slow, endless];
    const tools = await toolset({ enabled: all.map(({ name }) => name), offer_max: 2 }, all).forRun();
    const calls: ScriptedCall[] = [
      ['find_tools', { call: 'u_slow' }],
      ['find_tools', { call: 'u_endless' }],
    ];
    const { result } = await play({ tools, script: [...calls.map((call) => ({ calls: [call] })), 'done'] });
    const said = brief(messagesOf(result));
    expect(said).toContain('error The tool u_slow took longer than 0.05 seconds and was stopped.');
    expect(said).toContain('result {}');
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

describe('the report', () => {
  it('has what is on before any run, and starts nothing for it', async () => {
    const made = toolset({
      enabled: ['now', 'web_search'],
      folder: await folder({
        'greet.ts': `export default { description: 'x', parameters: { type: 'object' }, execute: () => 'hi' };`,
        'after.ts': `export default { description: 'x', parameters: { type: 'object' }, stage: 'post_process', execute: () => '' };`,
      }),
      skills: await folder({ 'refund/SKILL.md': '---\ndescription: How.\n---\nAsk.' }),
      mcp: { servers: { far: { url: 'http://127.0.0.1:9/' } } },
    });
    await made.load();
    const { items, sources } = made.report();
    expect(items.map(({ name, from, reached }) => [name, from, reached])).toEqual([
      ['after', 'folder', 'after_run'],
      ['greet', 'folder', 'directly'],
      ['now', 'built-in', 'directly'],
      ['read_skill', 'skills', 'directly'],
      ['web_search', 'built-in', 'directly'],
    ]);
    expect(sources).toEqual([
      { name: 'built-in', state: 'broken', detail: expect.stringContaining('web_search.provider') },
      { name: 'folder', state: 'ok' },
      { name: 'skills', state: 'ok' },
      { name: 'mcp:far', state: 'idle' },
    ]);
  });
});

describe('tools of the stage post_process', () => {
  it('are not offered, not found, take no place, and run after the run', async () => {
    const after = tool('after', async () => success('noted'), { stage: 'post_process' });
    const all = [...numbered(3), after];
    const made = toolset({ enabled: all.map(({ name }) => name), offer_max: 3 }, all);
    const { model } = await play({ tools: await made.forRun(), script: ['done'] });
    expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(['t00', 't01', 't02']);
    expect(after.calls).toEqual([{}]);

    const few = toolset({ enabled: all.map(({ name }) => name), offer_max: 2 }, all);
    const script = [{ calls: [['find_tools', { call: 'after' }] as ScriptedCall] }, 'done'];
    const { result } = await play({ tools: await few.forRun(), script });
    expect(brief(messagesOf(result))).toContainEqual(
      expect.stringMatching(/^error There is no tool "after"/),
    );
    expect(after.calls).toHaveLength(2);
  });

  it('are not run where they are not allowed', async () => {
    const after = tool('after', undefined, { stage: 'post_process' });
    const made = toolset({ enabled: ['after'], rules: [{ people: ['test:bob'], allow: false }] }, [after]);
    const runFor = async (id: string) => {
      const user = { conversation: 'test:c', people: [{ id }] };
      const beforeToolCall: AgentHooks['beforeToolCall'] = ({ tool: called, args }) => {
        const reason = made.refusal()?.(called, args, user);
        return reason === undefined ? undefined : { block: true, reason };
      };
      return play({ tools: await made.forRun(), script: ['done'], hooks: { beforeToolCall } });
    };
    const { writes } = await runFor('bob');
    expect(after.calls).toEqual([]);
    expect(steps(writes)).not.toContain('tool_start');
    await runFor('ann');
    expect(after.calls).toEqual([{}]);
  });
});

describe('the documentation', () => {
  it('lists every tool that comes with the server, and says whether it may run twice', async () => {
    const text = await readFile(join(import.meta.dirname, '../../docs/tools.md'), 'utf8');
    const rows = [...text.matchAll(/^\| `(\w+)` \|.*\| (yes|no)[^|]*\|$/gmu)].map(([, name, twice]) => [
      name,
      twice,
    ]);
    const enabled = ['now', 'calculate', 'web_fetch', 'web_search', 'send_file'];
    const skills = await folder({ 'refund/SKILL.md': '---\ndescription: How.\n---\nAsk.' });
    const tools = await toolset({ enabled, skills }).forRun();
    expect(rows).toEqual(
      expect.arrayContaining(tools.map(({ name, idempotent }) => [name, idempotent ? 'yes' : 'no'])),
    );
    expect(rows).toHaveLength(tools.length);
    // Each has a time limit of its own.
    expect(tools.filter(({ timeoutMs = 0 }) => timeoutMs <= 0)).toEqual([]);
    // What an unknown name is answered with has them all.
    const known = toolset({ enabled: ['nwo'] }).report().sources[0]?.detail;
    for (const name of enabled) expect(known).toContain(name);
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

  it("of our own are nobody else's: find_tools, and read_skill, which the prompt speaks of", () => {
    expect(named(['skills', 'read_skill'], ['folder', 'find_tools'], ['mcp:a', 'read_skill'])).toEqual([
      'read_skill',
      'folder_find_tools',
      'a_read_skill',
    ]);
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
