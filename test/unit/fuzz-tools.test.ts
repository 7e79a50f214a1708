// What comes to tools from outside, whatever it is: arguments that a model writes, pages and their encodings, answers of search
// services; and what is read back from a storage. See the table in docs/threat-model.md.
import type { OutgoingHttpHeaders } from 'node:http';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { parseArguments } from '../../src/agent/arguments.ts';
import { NO_MEDIA } from '../../src/agent/files.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import { textOf } from '../../src/domain/messages.ts';
import { createGuard } from '../../src/net/guard.ts';
import type { Tool, ToolContext } from '../../src/ports/tool.ts';
import { createFormat, readHistory, readJoining, readSnapshot } from '../../src/storage/formats.ts';
import { decodeText } from '../../src/tools/web/charset.ts';
import { createWebFetchTool } from '../../src/tools/web/fetch.ts';
import { PROVIDERS } from '../../src/tools/web/providers.ts';
import { createWebSearchTool } from '../../src/tools/web/search.ts';
import { silentLog } from '../fakes/log.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startWebServer } from '../fakes/web-server.ts';

const never = new AbortController().signal;
const context: ToolContext = {
  conversation: 'test:c',
  sender: { id: 'ann' },
  account: 'test',
  group: false,
  callId: 'call_1',
  signal: never,
  progress: () => undefined,
  media: NO_MEDIA,
  log: silentLog,
};

/** Bytes of which a few are changed, taken out or put in, or the end is missing. */
const garbled = (whole: Buffer) =>
  fc
    .record({
      changes: fc.array(
        fc.record({ at: fc.nat(whole.length), cut: fc.nat(3), put: fc.uint8Array({ maxLength: 3 }) }),
        { maxLength: 4 },
      ),
      end: fc.oneof(fc.constant(whole.length), fc.nat(whole.length)),
    })
    .map(({ changes, end }) => {
      let bytes = whole.subarray(0, end);
      for (const { at, cut, put } of changes)
        bytes = Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]);
      return bytes;
    });

describe('arguments of tool calls', () => {
  const tool: Tool = {
    name: 'pay',
    description: 'Pays.',
    parameters: {
      type: 'object',
      properties: { to: { type: 'string' }, cents: { type: 'integer' }, notes: { type: 'array' } },
      required: ['to'],
      additionalProperties: false,
    },
    idempotent: true,
    execute: () => Promise.reject(new Error('not called')),
  };
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '"',
    "'",
    ':',
    ',',
    '\\',
    '\n',
    'to',
    '"to"',
    'Ann',
    '1',
    '-',
    'null',
    '😀',
    '\\u00',
    ' ',
  );
  const good = Buffer.from(JSON.stringify({ to: 'Ann 😀', cents: 1, notes: ['a\n', { b: null }] }));
  const text = fc.oneof(
    fc.array(pieces, { maxLength: 20 }).map((parts) => parts.join('')),
    garbled(good).map((bytes) => bytes.toString('utf8')),
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.json(),
  );

  it('are an object of the tool’s schema, or an error that the model can read', () => {
    const ends = new Set<string>();
    const examples: [string, 'stop'][] = [
      [good.toString(), 'stop'],
      ['{"to":', 'stop'],
      ['[1]', 'stop'],
    ];
    fc.assert(
      fc.property(text, fc.constantFrom('stop' as const, 'length' as const), (said, stop) => {
        const parsed = parseArguments(said, stop);
        if (!parsed.ok) {
          ends.add(parsed.reason);
          expect(parsed.message).toMatch(/\S/u);
          expect(parsed.message.length).toBeLessThan(600);
          return;
        }
        expect(Object.prototype.toString.call(parsed.args)).toBe('[object Object]');
        // What was cut off is never completed by a guess.
        expect(parsed.repaired && stop === 'length').toBe(false);
        const checked = checkArguments(tool, parsed.args, parsed.repaired);
        ends.add(checked.ok ? 'taken' : 'refused');
        if (!checked.ok) {
          expect(checked.message).toMatch(/\S/u);
          return;
        }
        expect(typeof checked.args['to']).toBe('string');
        for (const key of Object.keys(checked.args)) expect(['to', 'cents', 'notes']).toContain(key);
      }),
      { numRuns: 2_000, examples },
    );
    expect([...ends].toSorted()).toEqual(['invalid', 'refused', 'taken', 'truncated']);
  });
});

describe('what web servers say', () => {
  let page: { status: number; headers: OutgoingHttpHeaders; body: Buffer } = {
    status: 200,
    headers: {},
    body: Buffer.alloc(0),
  };
  let url = '';
  const { track } = useCleanups(afterAll);
  beforeAll(async () => {
    const server = await startWebServer((request, response) => {
      request.resume();
      response.writeHead(page.status, page.headers).end(page.body);
    });
    ({ url } = track(server));
  });

  const labels = fc.constantFrom(
    'utf-8',
    'gbk',
    'big5',
    'shift_jis',
    'utf-16',
    'x-user-defined',
    'nonsense',
    '',
  );
  const marks = labels.chain((label) =>
    fc.constantFrom(
      '',
      `<meta charset=${label}>`,
      `<?xml encoding="${label}"?>`,
      '\u00ef\u00bb\u00bf',
      '\u00ff\u00fe',
    ),
  );
  const bytes = fc
    .tuple(
      marks,
      fc.oneof(
        fc.uint8Array({ maxLength: 80 }),
        fc.string({ unit: 'binary' }).map((s) => Buffer.from(s)),
      ),
    )
    .map(([mark, rest]) => Buffer.concat([Buffer.from(mark, 'latin1'), rest]));

  it('is a text, whatever the bytes and however they are labelled', () => {
    fc.assert(
      fc.property(bytes, labels, (body, label) => {
        const text = decodeText(body, `text/html; charset=${label}`);
        expect(text.length).toBeLessThanOrEqual(body.length * 2);
        // Half a character would go to the model.
        if (label !== 'utf-16') expect(text.isWellFormed()).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  const { tools } = configSchema.parse({ tools: { web_fetch: { allow_private: true, max_bytes: 2_000 } } });
  const fetchPage = createWebFetchTool({
    settings: tools.web_fetch,
    guard: createGuard({ allowPrivate: true }),
  });
  const read = async (): Promise<string> => {
    const { status, content } = await fetchPage.execute({ url }, context);
    const text = textOf(content);
    expect(text).toMatch(/\S/u);
    return status;
  };

  it('is a page or an error for web_fetch: any status, type, compression and bytes', async () => {
    const statuses = new Set<string>();
    const headers = fc.record(
      {
        'content-type': fc.oneof(
          labels.map((label) => `text/plain; charset=${label}`),
          fc.constantFrom('application/json', 'image/png', 'text/', ';', 'application/x+xml'),
        ),
        'content-encoding': fc.constantFrom('gzip', 'deflate', 'br', 'zstd', 'x-odd', 'identity'),
        location: fc.constantFrom('http://[', '//', 'file:///etc/passwd', '/'),
      },
      { requiredKeys: ['content-type'] },
    );
    // HTML and PDF start a process for each page: they are below.
    const plain = fc
      .oneof(bytes, garbled(gzipSync('text '.repeat(50))))
      .filter((body) => !/<|%PDF/u.test(String(body)));
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(200, 200, 200, 301, 404, 500),
        headers,
        plain,
        async (status, head, body) => {
          page = { status, headers: head, body };
          statuses.add(await read());
        },
      ),
      { numRuns: 200 },
    );
    expect([...statuses].toSorted()).toEqual(['error', 'success']);
  });

  it('is a page or an error for web_fetch: HTML and PDF, each in its own process', async () => {
    const html = Buffer.from(
      '<!doctype html><title>T</title><table><tr><th>a<td>b</table><a href="//[">x</a>',
    );
    const pdf = Buffer.from(
      '%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\ntrailer\n<< /Root 1 0 R >>',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          garbled(html).map((body) => ({ body, type: 'text/html' })),
          garbled(pdf).map((body) => ({ body, type: 'application/pdf' })),
        ),
        async ({ body, type }) => {
          page = { status: 200, headers: { 'content-type': type }, body };
          await read();
        },
      ),
      { numRuns: 4, endOnFailure: true },
    );
  }, 30_000);

  const names = ['tavily', 'brave', 'bocha', 'searxng'] as const;
  const item = fc.record(
    {
      title: fc.anything(),
      name: fc.oneof(fc.constant('&#x110000;&#0;&amp;<b>x</b>'), fc.anything()),
      url: fc.oneof(fc.webUrl(), fc.anything()),
      content: fc.oneof(fc.string({ unit: 'binary' }), fc.anything()),
      description: fc.anything(),
      age: fc.anything(),
    },
    { requiredKeys: [] },
  );
  const list = fc.oneof(fc.array(fc.oneof(item, fc.anything()), { maxLength: 4 }), fc.anything());
  const answer = fc.oneof(
    list.map((results) => ({ results, web: { results }, data: { webPages: { value: results } } })),
    fc.record({ code: fc.anything(), data: fc.anything(), web: fc.anything() }),
    fc.anything(),
  );

  it('is results, or nothing, for web_search: any answer that is JSON', () => {
    let found = 0;
    fc.assert(
      fc.property(fc.constantFrom(...names), answer, (name, body) => {
        for (const one of PROVIDERS[name].results(body) ?? []) {
          found += 1;
          for (const value of Object.values(one)) expect(typeof value).toBe('string');
        }
      }),
      { numRuns: 1_000 },
    );
    expect(found).toBeGreaterThan(100);
  });

  it('is results or an error for web_search: any bytes, without the key', async () => {
    const key = 'sk-very-secret-key';
    const whole = Buffer.from(
      JSON.stringify({ results: [{ title: 'T', url: 'https://a.test/', content: key }] }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...names),
        fc.constantFrom(200, 200, 200, 302, 401, 500),
        fc.oneof(
          garbled(whole),
          fc.uint8Array({ maxLength: 60 }).map((some) => Buffer.from(some)),
        ),
        async (provider, status, body) => {
          page = { status, headers: { 'content-type': 'application/json', location: '/x' }, body };
          const settings = { tools: { web_search: { provider, api_key: key, base_url: url } } };
          const tool = createWebSearchTool(configSchema.parse(settings).tools.web_search);
          const result = await tool.execute({ query: 'q' }, context);
          const text = textOf(result.content);
          expect(text).toMatch(/\S/u);
          if (result.status === 'error') expect(text).not.toContain(key);
        },
      ),
      { numRuns: 150 },
    );
  });
});

describe('records that are read back from a storage', () => {
  const stored = fc.oneof(
    fc.record({
      v: fc.oneof(fc.integer(), fc.double(), fc.anything()),
      kind: fc.string(),
      content: fc.anything(),
    }),
    fc.dictionary(fc.string(), fc.jsonValue()),
  );
  const text = stored.map((value) => {
    try {
      return JSON.stringify(value);
    } catch {
      // A bigint.
      return '{}';
    }
  });
  /** What this release makes of it. */
  const versionOf = (json: string): unknown => {
    const { v = 1 } = JSON.parse(json) as { v?: unknown };
    return v;
  };

  it('are of this release, of a later one, or an error: never taken for what they are not', () => {
    const ends = new Set<string>();
    fc.assert(
      fc.property(text, fc.constantFrom('context', 'inbox', 'journal'), (json, kind) => {
        const records = { context: [], inbox: [], journal: [], [kind]: [json] };
        const v = versionOf(json);
        try {
          const snapshot = readSnapshot(records);
          if ('newer' in snapshot) {
            ends.add('newer');
            expect(v === 1 || (typeof v === 'number' && v < 1)).toBe(false);
          } else {
            ends.add('read');
            expect(v).toBe(1);
            expect(snapshot[kind as 'context']).toEqual([JSON.parse(json)]);
          }
          expect(readJoining([json]) === undefined).toBe('newer' in snapshot);
          expect(readHistory(json)).toEqual(JSON.parse(json));
        } catch (error) {
          ends.add('error');
          expect(String(error)).toMatch(/no step from version/u);
          expect(typeof v === 'number' && v < 1).toBe(true);
        }
      }),
      {
        numRuns: 1_000,
        examples: [
          ['{"v":0}', 'journal'],
          ['{"v":1}', 'inbox'],
          ['{"v":2}', 'context'],
        ],
      },
    );
    expect([...ends].toSorted()).toEqual(['error', 'newer', 'read']);
  });

  it('are brought up to date step by step, from whatever version', () => {
    const step = (n: number) => (record: Record<string, unknown>) => ({
      ...record,
      steps: [...(record['steps'] as number[]), n],
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), (v) => {
        const format = createFormat<{ steps: number[] }>(4, { 1: step(1), 2: step(2), 3: step(3) });
        const { record, newer } = format.read(JSON.stringify({ v, steps: [] }));
        expect(newer).toBeUndefined();
        expect(record).toEqual({ v: 4, steps: [1, 2, 3].slice(v - 1) });
      }),
    );
  });
});
