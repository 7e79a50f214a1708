// web_fetch and web_search on real servers: pages in every encoding, PDF, redirects, caps, refusals; the four search APIs
// as their documentation has them, and keys that never show.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { textOf } from '../../src/domain/messages.ts';
import { createGuard } from '../../src/net/guard.ts';
import type { ToolContext, ToolResult } from '../../src/ports/tool.ts';
import { createWebFetchTool } from '../../src/tools/web/fetch.ts';
import { createWebSearchTool } from '../../src/tools/web/search.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';

const { later } = useCleanups();

interface Site {
  url: string;
  hits: { url: string; method: string; headers: IncomingMessage['headers']; body: string }[];
}

type Page = { status?: number; type?: string; headers?: Record<string, string>; body?: string | Uint8Array };

/** Path → page, or a handler. */
async function site(pages: Record<string, Page | ((response: ServerResponse) => void)>): Promise<Site> {
  const hits: Site['hits'] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = request.url ?? '';
      const body = Buffer.concat(chunks).toString();
      hits.push({ url, method: request.method ?? '', headers: request.headers, body });
      const page = pages[url.split('?', 1)[0] ?? ''] ?? { status: 404 };
      if (typeof page === 'function') return page(response);
      const type = page.type === undefined ? {} : { 'content-type': page.type };
      response.writeHead(page.status ?? 200, { ...type, ...page.headers });
      response.end(page.body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  later(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}`, hits };
}

const context = (signal = new AbortController().signal): ToolContext => ({
  conversation: 'test:c',
  sender: { id: 'ann' },
  account: 'test',
  group: false,
  callId: 'call_1',
  signal,
  progress: () => undefined,
  log: silentLog,
});

function fetcher(
  more: Record<string, unknown> = {},
  resolve?: (hostname: string) => Promise<{ address: string; family: number }[]>,
) {
  const settings = configSchema.parse({ tools: { web_fetch: { allow_private: true, ...more } } }).tools
    .web_fetch;
  const guard = createGuard({ allowPrivate: settings.allow_private, ...(resolve ? { resolve } : {}) });
  const tool = createWebFetchTool({ settings, guard });
  return (url: string, args: Record<string, unknown> = {}, signal?: AbortSignal) =>
    tool.execute({ url, ...args }, context(signal));
}

const read = async (result: Promise<ToolResult>) => {
  const { status, content } = await result;
  return `${status}: ${textOf(content)}`;
};

/** A PDF of one page with one line of text, and offsets as the format wants them. */
function pdf(text: string): Buffer {
  const stream = `BT /F1 18 Tf 40 100 Td (${text}) Tj ET`;
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  let out = '%PDF-1.4\n';
  const offsets = objects.map((object, n) => {
    const at = out.length;
    out += `${n + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const start = out.length;
  const table = offsets.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`).join('');
  out += `xref\n0 6\n0000000000 65535 f \n${table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return Buffer.from(out, 'latin1');
}

describe('web_fetch', () => {
  test('HTML becomes Markdown: headings, links, lists, tables; no scripts and no navigation', async () => {
    const { url, hits } = await site({
      '/a/page': {
        type: 'text/html; charset=utf-8',
        body: `<!doctype html><html><head><title>The &amp; title</title><style>p{}</style><script>alert(1)</script></head>
          <body><nav>menu</nav><h1>Hello</h1><p>See <a href="../b?x=1">this</a>, <a href="javascript:x()">not that</a>.</p>
          <ul><li>one</li><li>two</li></ul><table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table>
          <img src="x.png" alt="a cat"><footer>imprint</footer></body></html>`,
      },
    });
    const result = await fetcher()(`${url}/a/page`);
    const text = textOf(result.content);
    expect(result.status).toBe('success');
    expect(text).toContain(`# The & title\n${url}/a/page`);
    expect(text).toContain('# Hello');
    expect(text).toContain(`[this](${url}/b?x=1), not that.`);
    expect(text).toMatch(/-\s+one\n-\s+two/);
    expect(text).toMatch(/\| k \| v \|\n\| --- \| --- \|\n\| a \| 1 \|/);
    expect(text).toContain('(picture: a cat)');
    for (const gone of ['alert', 'menu', 'imprint', 'p{}', 'javascript']) expect(text).not.toContain(gone);
    expect(result.display).toContain('The & title');
    expect(hits).toMatchObject([{ method: 'GET' }]);
  });

  test.each([
    ['a header, GBK', 'text/html; charset=gbk', 'c4e3bac3cac0bde7', '你好世界'],
    ['a header, GB2312', 'text/html; charset=gb2312', 'c4e3bac3', '你好'],
    ['a header, Big5', 'text/html; charset=big5', 'a741a66ea540acc9', '你好世界'],
    ['a header, Shift JIS', 'text/html; charset=Shift_JIS', '82b182f182c982bf82cd', 'こんにちは'],
    ['a header, EUC-KR', 'text/html; charset=euc-kr', 'bec8b3e7', '안녕'],
    ['nobody, GBK', 'text/html', 'c4e3bac3cac0bde7', '你好世界'],
    ['nobody, UTF-8', 'text/html', Buffer.from('你好').toString('hex'), '你好'],
    ['a mark, UTF-16', 'text/plain', 'fffe604f7d59', '你好'],
    [
      'a name that does not exist, UTF-8',
      'text/html; charset=klingon',
      Buffer.from('é').toString('hex'),
      'é',
    ],
  ])('an encoding told by %s', async (_name, type, hex, text) => {
    const { url } = await site({ '/': { type, body: Buffer.from(hex, 'hex') } });
    expect(await read(fetcher()(`${url}/`))).toContain(text);
  });

  test('an encoding told by the page itself', async () => {
    const head = Buffer.from('<html><head><meta charset="big5"></head><body>', 'latin1');
    const { url } = await site({
      '/': { type: 'text/html', body: Buffer.concat([head, Buffer.from('a741a66e', 'hex')]) },
    });
    expect(await read(fetcher()(`${url}/`))).toContain('你好');
  });

  test('PDF becomes text, a damaged one an error', async () => {
    const { url } = await site({
      '/a': { type: 'application/pdf', body: pdf('Invoice 4711') },
      '/b': { type: 'application/octet-stream', body: pdf('Invoice 4712') },
      '/c': { type: 'application/pdf', body: '%PDF-1.4 nothing' },
    });
    expect(await read(fetcher()(`${url}/a`))).toContain('Invoice 4711');
    expect(await read(fetcher()(`${url}/b`))).toContain('Invoice 4712');
    expect(await read(fetcher()(`${url}/c`))).toMatch(/^error: The page can't be read/);
    expect(await read(fetcher({ max_bytes: 100 })(`${url}/a`))).toMatch(/^error: The PDF is larger/);
  });

  test('plain text and JSON stay as they are; pictures, errors and odd compression are told', async () => {
    const { url } = await site({
      '/json': { type: 'application/json', body: '{"a": 1}' },
      '/png': { type: 'image/png', body: 'x' },
      '/zip': { type: 'text/plain', headers: { 'content-encoding': 'gzip' }, body: gzipSync('zipped') },
      '/bomb': {
        type: 'text/plain',
        headers: { 'content-encoding': 'gzip' },
        body: gzipSync('x'.repeat(9_000_000)),
      },
    });
    expect(await read(fetcher()(`${url}/json`))).toMatch(/^success: .*\{"a": 1\}$/s);
    expect(await read(fetcher()(`${url}/png`))).toMatch(/^error: It is not text but image\/png/);
    expect(await read(fetcher()(`${url}/none`))).toMatch(/^error: .* status 404/);
    expect(await read(fetcher()(`${url}/zip`))).toContain('zipped');
    expect(await read(fetcher()(`${url}/bomb`))).toMatch(/^error: The page can't be read/);
  });

  test('a long page is read in parts, an endless one is cut', async () => {
    const endless = (response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const more = () => {
        while (!response.destroyed && response.write('y'.repeat(10_000)));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    };
    const { url } = await site({
      '/long': { type: 'text/plain', body: 'a'.repeat(150) + 'b'.repeat(50) },
      '/endless': endless,
    });
    const get = fetcher({ max_chars: 100, max_bytes: 50_000 });
    expect(await read(get(`${url}/long`))).toMatch(
      /characters 0 to 100 of 200; the rest with from: 100\)\n\na{100}$/,
    );
    expect(await read(get(`${url}/long`, { from: 100 }))).toMatch(/100 to 200 of 200\)\n\na{50}b{50}$/);
    expect(await read(get(`${url}/endless`))).toMatch(/cut after 50000 bytes/);
  });

  test('each redirect is checked, and there are not many', async () => {
    const to = (location: string) => ({ status: 302, headers: { location } });
    const pages: Record<string, Page> = {
      '/ok': to('/there'),
      '/there': { type: 'text/plain', body: 'arrived' },
      '/loop': to('/loop'),
      '/metadata': to('http://169.254.169.254/latest/meta-data/'),
      '/file': to('file:///etc/passwd'),
      '/name': to('http://inside.example/'),
    };
    const { url, hits } = await site(pages);
    const asked: string[] = [];
    const get = fetcher({}, async (hostname) => {
      asked.push(hostname);
      return [{ address: '169.254.169.254', family: 4 }];
    });
    expect(await read(get(`${url}/ok`))).toContain(`${url}/there\n\narrived`);
    expect(await read(get(`${url}/metadata`))).toMatch(/^error: This address is refused/);
    expect(await read(get(`${url}/file`))).toMatch(/^error: This address is refused: only http/);
    expect(await read(get(`${url}/name`))).toMatch(/^error: This address is refused/);
    expect(asked).toEqual(['inside.example']);
    hits.length = 0;
    expect(await read(get(`${url}/loop`))).toMatch(/redirects more than 5 times/);
    expect(hits).toHaveLength(6);
  });

  test('a name that changes its mind is connected to where it was checked, once for each hop', async () => {
    const { url } = await site({
      '/': { status: 301, headers: { location: '/again' } },
      '/again': { body: 'x' },
    });
    const { port } = new URL(url);
    const answers = ['127.0.0.1', '169.254.169.254'];
    const get = fetcher({}, async () => [{ address: answers.shift() ?? '10.0.0.1', family: 4 }]);
    expect(await read(get(`http://rebind.example:${port}/`))).toMatch(/^error: This address is refused/);
    expect(answers).toEqual([]);
  });

  test.each([
    'http://127.0.0.1',
    'http://localhost',
    'http://[::1]',
    'http://[::ffff:127.0.0.1]',
    'http://[::ffff:7f00:1]',
    'http://2130706433',
    'http://0x7f000001',
    'http://0177.0.0.1',
    'http://127.1',
    'http://0',
    'http://10.0.0.1',
    'http://192.168.1.1',
    'http://172.16.0.1',
    'http://169.254.169.254',
    'http://100.64.0.1',
    'http://[fe80::1]',
    'http://[fd00::1]',
    'http://[64:ff9b::7f00:1]',
    'http://１２７.0.0.1',
    'http://a:b@example.com',
    'file:///etc/passwd',
    'gopher://127.0.0.1',
    'nonsense',
  ])('does not reach %s', async (address) => {
    const { url, hits } = await site({ '/': { body: 'inside' } });
    const { port } = new URL(url);
    const target = URL.canParse(address) && address.startsWith('http') ? `${address}:${port}/` : address;
    expect(await read(fetcher({ allow_private: false })(target))).toMatch(/^error: This address is refused/);
    expect(hits).toEqual([]);
  });

  test('a silent server costs the time limit, and a cancelled call ends at once', async () => {
    const { url } = await site({ '/': () => undefined });
    expect(await read(fetcher({ timeout_ms: 200 })(`${url}/`))).toMatch(
      /^error: The page took longer than 0\.2/,
    );
    const controller = new AbortController();
    const waiting = fetcher()(`${url}/`, {}, controller.signal);
    controller.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
  });

  test('a page that keeps its parser busy is given up in time, and the server goes on', async () => {
    const { url } = await site({
      '/': { type: 'text/html', body: '<div><b><i><table>'.repeat(200_000) },
    });
    const started = performance.now();
    const ticks = setInterval(() => undefined, 10);
    expect(await read(fetcher({ timeout_ms: 1_500 })(`${url}/`))).toMatch(
      /^error: The page (?:took longer|can't be read)/,
    );
    clearInterval(ticks);
    expect(performance.now() - started).toBeLessThan(6_000);
  });
});

describe('web_search', () => {
  const KEY = 'sk-very-secret-key';
  const answers = {
    tavily: {
      path: '/search',
      body: {
        query: 'q',
        results: [{ title: 'T1', url: 'https://a.example/1', content: 'about one', score: 0.9 }],
        response_time: 1.2,
      },
    },
    brave: {
      path: '/web/search',
      body: {
        type: 'search',
        web: {
          type: 'search',
          results: [
            {
              title: 'T1',
              url: 'https://a.example/1',
              description: 'about <strong>one</strong>',
              age: '2 days ago',
            },
          ],
        },
      },
    },
    bocha: {
      path: '/web-search',
      body: {
        code: 200,
        data: {
          _type: 'SearchResponse',
          webPages: {
            value: [
              {
                name: 'T1',
                url: 'https://a.example/1',
                snippet: 'about',
                summary: 'about one',
                siteName: 's',
              },
            ],
          },
        },
      },
    },
    searxng: {
      path: '/search',
      body: {
        query: 'q',
        results: [{ title: 'T1', url: 'https://a.example/1', content: 'about one', engine: 'x' }],
      },
    },
  } as const;
  type Provider = keyof typeof answers;
  const providers = Object.keys(answers) as Provider[];

  const searcher = (provider: string, more: Record<string, unknown> = {}) => {
    const { web_search } = configSchema.parse({
      tools: { web_search: { provider, api_key: KEY, ...more } },
    }).tools;
    const tool = createWebSearchTool(web_search);
    return (query: string, signal?: AbortSignal) => tool.execute({ query, count: 3 }, context(signal));
  };

  test.each(providers)('%s is asked as documented, and its results are read', async (provider) => {
    const { path, body } = answers[provider];
    const { url, hits } = await site({ [path]: { type: 'application/json', body: JSON.stringify(body) } });
    const text = await read(searcher(provider, { base_url: `${url}/` })('天气 & more'));
    expect(text).toMatch(/^success: 1\. T1.*\nhttps:\/\/a\.example\/1\nabout one$/);
    const [hit] = hits;
    const sent =
      hit?.method === 'POST'
        ? (JSON.parse(hit.body) as Record<string, unknown>)
        : Object.fromEntries(new URL(`http://x${hit?.url}`).searchParams);
    expect(sent).toEqual(
      {
        tavily: { query: '天气 & more', max_results: 3 },
        brave: { q: '天气 & more', count: '3' },
        bocha: { query: '天气 & more', count: 3, summary: true },
        searxng: { q: '天气 & more', format: 'json' },
      }[provider],
    );
    const header =
      provider === 'brave' ? hit?.headers['x-subscription-token'] : hit?.headers['authorization'];
    expect(header).toContain(KEY);
    expect(hit?.url).not.toContain(KEY);
  });

  test.each(providers)('%s: what goes wrong is told without the key', async (provider) => {
    const { path } = answers[provider];
    const wrong: [Page | ((response: ServerResponse) => void), RegExp][] = [
      [{ status: 401, body: `bad key ${KEY}` }, /does not accept the key/],
      [{ status: 429, body: KEY }, /no more searches/],
      [{ status: 500, body: KEY }, /status 500/],
      [{ body: `<html>${KEY}` }, /not JSON/],
      [{ body: '{"results": "none"}' }, /Nothing was found/],
      [{ status: 302, headers: { location: 'http://127.0.0.1:9/' } }, /does not answer/],
      [(response) => response.destroy(), /does not answer/],
    ];
    for (const [page, message] of wrong) {
      const { url } = await site({ [path]: page });
      const text = await read(searcher(provider, { base_url: url })('q'));
      expect(text).toMatch(message);
      expect(text).not.toContain(KEY);
    }
    const { url } = await site({ [path]: () => undefined });
    expect(await read(searcher(provider, { base_url: url, timeout_ms: 200 })('q'))).toMatch(
      /took longer than 0\.2/,
    );
  });

  test('says what its settings lack', async () => {
    expect(await read(searcher('none')('q'))).toMatch(/provider is none/);
    expect(await read(searcher('brave', { api_key: '' })('q'))).toMatch(/api_key is empty/);
    expect(await read(searcher('searxng')('q'))).toMatch(/base_url is empty/);
  });
});
