// kill -9 while every tool is in the middle of a call, some of them before, in and after it, on both storages: what has
// finished never runs again, what may have run is run again only where that is harmless, and no MCP server is left behind.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import type { HOLDS } from '../fakes/fault-points.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel } from '../fakes/server.ts';
import { processesWith } from '../fakes/toolset.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';
import { startWebServer } from '../fakes/web-server.ts';

const ENTRY = join(import.meta.dirname, '../fakes/fault-server.ts');
const MCP_SERVER = join(import.meta.dirname, '../fakes/mcp-server.ts');

const { later, track } = useCleanups();

type Moment = (typeof HOLDS)[number];

interface Kind {
  /** Its tool, and arguments; WHERE is another word for each moment. */
  tool: string;
  args?: Record<string, unknown>;
  /** May it run again? */
  harmless: boolean;
  /** Of the result. */
  says: RegExp;
  /** It is slow, and what is outside tells how often it was called at that moment. */
  called?(outside: Outside, moment: Moment): Promise<number>;
}

interface Outside {
  folder: string;
  /** Requests that had the text in their path. */
  hits(text: string): number;
}

const linesIn = async (file: string, pattern: RegExp): Promise<number> => {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => pattern.test(line)).length;
};

const overMcp =
  (name: string): Kind['called'] =>
  ({ folder }, moment) =>
    linesIn(
      join(folder, 'mcp'),
      new RegExp(
        `"method":"tools/call".*"${name}".*"${moment}"|"method":"tools/call".*"${moment}".*"${name}"`,
      ),
    );

const dropIn =
  (name: string): Kind['called'] =>
  ({ folder }, moment) =>
    linesIn(join(folder, name), new RegExp(moment));

const KINDS: Record<string, Kind> = {
  now: { tool: 'now', args: { zone: 'UTC' }, harmless: true, says: /\d{4}-\d\d-\d\d/ },
  calculate: { tool: 'calculate', args: { expression: '6*7' }, harmless: true, says: /42/ },
  skill: { tool: 'read_skill', args: { name: 'refund' }, harmless: true, says: /Ask for the number/ },
  'send-file': {
    tool: 'send_file',
    args: { name: 'a.txt', content: 'WHERE' },
    harmless: true,
    says: /goes to the user/,
  },
  fetch: {
    tool: 'web_fetch',
    args: { url: 'http://127.0.0.1:PORT/page/WHERE' },
    harmless: true,
    says: /the page/,
    called: async ({ hits }, moment) => hits(`/page/${moment}`),
  },
  search: {
    tool: 'web_search',
    args: { query: 'WHERE' },
    harmless: true,
    says: /about cats/,
    called: async ({ hits }, moment) => hits(`/search?q=${moment}`),
  },
  'mcp-that-reads': {
    tool: 'look',
    args: { at: 'WHERE' },
    harmless: true,
    says: /look \d/,
    called: overMcp('look'),
  },
  mcp: { tool: 'note', args: { at: 'WHERE' }, harmless: false, says: /note \d/, called: overMcp('note') },
  // It is as harmless as the worst of those behind it.
  find: {
    tool: 'find_tools',
    args: { call: 'structured', arguments: { at: 'WHERE' } },
    harmless: false,
    says: /"answer":42/,
    called: overMcp('structured'),
  },
  'drop-in-twice': {
    tool: 'twice',
    args: { at: 'WHERE' },
    harmless: true,
    says: /twice ran/,
    called: dropIn('twice'),
  },
  'drop-in-once': {
    tool: 'once',
    args: { at: 'WHERE' },
    harmless: false,
    says: /once ran/,
    called: dropIn('once'),
  },
};

/** Slow ones don't come to their end in the first process. */
const HANGING = 'ran';

const dropInTool = (folder: string, name: string, idempotent: boolean): string =>
  `import { appendFileSync } from 'node:fs';
   export default {
     description: 'Notes.', parameters: { type: 'object' }, idempotent: ${idempotent},
     async execute({ at }: { at: string }) {
       appendFileSync(${JSON.stringify(join(folder, name))}, at + '\\n');
       if (process.env.HOLD && at === '${HANGING}') await new Promise(() => {});
       return '${name} ran';
     },
   };`;

async function setUp(redisUrl: string | undefined) {
  const model = track(await startModelServer());
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-tools-kill-'));
  later(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'tools'));
  await writeFile(join(folder, 'tools/once.ts'), dropInTool(folder, 'once', false));
  await writeFile(join(folder, 'tools/twice.ts'), dropInTool(folder, 'twice', true));
  await mkdir(join(folder, 'skills/refund'), { recursive: true });
  await writeFile(
    join(folder, 'skills/refund/SKILL.md'),
    '---\ndescription: How refunds are made.\n---\nAsk for the number.',
  );

  const urls: string[] = [];
  let first = true;
  const web = await startWebServer(({ url = '' }, response) => {
    urls.push(url);
    if (first && url.includes(HANGING)) return;
    const isPage = url.startsWith('/page');
    response.writeHead(200, { 'content-type': isPage ? 'text/plain' : 'application/json' });
    const result = { title: 'Cats', url: 'https://a.example/', content: 'about cats' };
    response.end(isPage ? 'the page' : JSON.stringify({ results: [result] }));
  });
  track(web);

  const configFor = (hold: string) =>
    withModel(model.openaiUrl, {
      workers: { lock_seconds: 4, sweep_seconds: 1 },
      channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
      tools: {
        enabled: ['now', 'calculate', 'send_file', 'web_fetch', 'web_search'],
        // Two of the MCP server's tools, and find_tools for the rest.
        offer_max: 11,
        folder: join(folder, 'tools'),
        skills: join(folder, 'skills'),
        web_fetch: { allow_private: true },
        web_search: { provider: 'searxng', base_url: web.url },
        mcp: {
          servers: {
            own: {
              command: process.execPath,
              args: [MCP_SERVER, join(folder, 'mcp')],
              env: hold === '' ? {} : { HANG: HANGING },
              allow: ['look', 'note', 'structured', 'refuse'],
              trust_hints: true,
            },
          },
        },
      },
    });

  const record = join(folder, 'record');
  return {
    port: web.port,
    outside: {
      folder,
      hits: (text: string) => urls.filter((url) => url.includes(text)).length,
    } satisfies Outside,
    mcpMark: join(folder, 'mcp'),
    recorded: (what: string, chat: string) =>
      linesIn(record, new RegExp(`"what":"${what}".*"conversation":"webhook:${chat}"`)),
    async launch(hold: string) {
      first = hold !== '';
      const env = { RECORD: record, HOLD: hold };
      const options = { entry: ENTRY, config: configFor(hold), dataDir: folder, env };
      return track(await startServer({ ...options, ...(redisUrl ? { redisUrl } : {}) }));
    },
  };
}

const MOMENTS: readonly Moment[] = ['started', 'ran', 'journaled'];
const CASES = MOMENTS.flatMap((moment) =>
  Object.entries(KINDS).map(([name, kind]) => ({ moment, chat: `${moment}-${name}`, kind })),
);

test.each(['SQLite', 'Redis'])(
  'kill -9 in the middle of every tool, on %s',
  async (storage) => {
    const redis = storage === 'Redis' ? track(await startRedis()) : undefined;
    const set = await setUp(redis?.url);
    const first = await set.launch('1');
    const before = createWebhookClient(() => first.url);
    await Promise.all(
      CASES.map(({ moment, chat, kind: { tool, args } }) => {
        const call = `use:${tool}${JSON.stringify(args)}`
          .replace('PORT', String(set.port))
          .replace('WHERE', moment);
        return before.send(call, { id: chat, conversation: chat });
      }),
    );
    const isThere = ({ moment, chat, kind: { called } }: (typeof CASES)[number]) =>
      moment === HANGING && called ? called(set.outside, moment) : set.recorded('held', chat);
    await vi.waitFor(
      async () => {
        for (const one of CASES) expect(await isThere(one), one.chat).toBe(1);
      },
      { timeout: 45_000, interval: 100 },
    );
    await first.kill('SIGKILL');
    await vi.waitFor(async () => expect(await processesWith(set.mcpMark)).toEqual([]), 20_000);

    const second = await set.launch('');
    const after = createWebhookClient(() => second.url);
    for (const { moment, chat, kind } of CASES) {
      const { harmless, says, called } = kind;
      const { status, reply } = await after.settled(chat, 45_000);
      const again = moment !== 'journaled' && harmless;
      expect({ chat, status, text: reply?.text }).toMatchObject({ status: 'done' });
      expect(reply?.text, chat).toMatch(
        moment === 'journaled' || again ? says : /may or may not have taken effect/,
      );
      const starts = await set.recorded('starting', chat);
      const calls = called ? await called(set.outside, moment) : undefined;
      // On a slow machine a lease may end while a run goes on: what is harmless is then begun once more.
      if (again) expect(starts, chat).toBeGreaterThanOrEqual(2);
      else expect(starts, chat).toBe(1);
      const made = moment === 'started' ? 0 : 1;
      if (again && called) expect(calls, chat).toBeGreaterThan(made);
      else if (called) expect(calls, chat).toBe(made);
    }
  },
  180_000,
);
