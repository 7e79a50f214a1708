// web_fetch and web_search on real servers: pages in every encoding, PDF, redirects, caps, refusals; the four search APIs
// as their documentation has them, and keys that never show.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { NO_MEDIA } from '../../src/agent/files.ts';
import { textOf } from '../../src/domain/messages.ts';
import { createGuard, type Guard } from '../../src/net/guard.ts';
import type { ToolContext, ToolResult } from '../../src/ports/tool.ts';
import { decodeText } from '../../src/tools/web/charset.ts';
import { createWebFetchTool } from '../../src/tools/web/fetch.ts';
import { createWebSearchTool } from '../../src/tools/web/search.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { SEARCH_APIS, startSearchServer, type SearchApi } from '../fakes/search-server.ts';
import { startWebServer } from '../fakes/web-server.ts';

const { later, track } = useCleanups();

interface Site {
  url: string;
  hits: { url: string; method: string; headers: IncomingMessage['headers']; body: string }[];
}

type Page = { status?: number; type?: string; headers?: Record<string, string>; body?: string | Uint8Array };

/** Path → page, or a handler. */
async function site(pages: Record<string, Page | ((response: ServerResponse) => void)>): Promise<Site> {
  const hits: Site['hits'] = [];
  const server = await startWebServer((request, response) => {
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
  later(() => server.close());
  return { url: server.url, hits };
}

const context = (signal = new AbortController().signal): ToolContext => ({
  conversation: 'test:c',
  sender: { id: 'ann' },
  account: 'test',
  group: false,
  callId: 'call_1',
  signal,
  progress: () => undefined,
  media: NO_MEDIA,
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
    ['a header, GB2312', 'text/plain; charset=gb2312', 'c4e3bac3', '你好'],
    ['a header, Big5', 'text/plain; charset=big5', 'a741a66ea540acc9', '你好世界'],
    ['a header, Shift JIS', 'text/plain; charset=Shift_JIS', '82b182f182c982bf82cd', 'こんにちは'],
    ['a header, EUC-KR', 'text/plain; charset=euc-kr', 'bec8b3e7', '안녕'],
    ['nobody, GBK', 'text/plain', 'c4e3bac3cac0bde7', '你好世界'],
    ['nobody, UTF-8', 'text/plain', Buffer.from('你好').toString('hex'), '你好'],
    ['a mark, UTF-16LE', 'text/plain', 'fffe604f7d59', '你好'],
    ['a mark, UTF-16BE', 'text/plain', 'feff4f60597d', '你好'],
    [
      'a mark, UTF-8, against the header',
      'text/plain; charset=gbk',
      `efbbbf${Buffer.from('你好').toString('hex')}`,
      '你好',
    ],
    [
      'a name that does not exist, UTF-8',
      'text/plain; charset=klingon',
      Buffer.from('é').toString('hex'),
      'é',
    ],
  ])('an encoding told by %s', async (_name, type, hex, text) => {
    const { url } = await site({ '/': { type, body: Buffer.from(hex, 'hex') } });
    expect(await read(fetcher()(`${url}/`))).toContain(text);
  });

  test.each([
    ['meta charset, Big5', '<meta charset="big5">', 'a741a66e', '你好'],
    ['meta charset, GBK', "<meta charset='gbk'>", 'c4e3bac3', '你好'],
    [
      'http-equiv, GB2312',
      '<meta http-equiv="Content-Type" content="text/html; charset=gb2312">',
      'c4e3bac3',
      '你好',
    ],
    [
      'http-equiv, Shift JIS',
      '<META HTTP-EQUIV=content-type CONTENT="text/html;charset=Shift_JIS">',
      '82b182f182c982bf82cd',
      'こんにちは',
    ],
    ['meta charset, EUC-JP', '<meta charset=euc-jp>', 'a4b3a4f3', 'こん'],
    [
      'a mark in ASCII that says UTF-16',
      '<meta charset="utf-16">',
      Buffer.from('你好').toString('hex'),
      '你好',
    ],
  ])('an encoding told by the page itself: %s', (_name, mark, hex, text) => {
    const head = Buffer.from(`<html><head>${mark}</head><body>`, 'latin1');
    expect(decodeText(Buffer.concat([head, Buffer.from(hex, 'hex')]), 'text/html')).toContain(text);
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
    });
    expect(await read(fetcher()(`${url}/json`))).toMatch(/^success: .*\{"a": 1\}$/s);
    expect(await read(fetcher()(`${url}/png`))).toMatch(/^error: It is not text but image\/png/);
    expect(await read(fetcher()(`${url}/none`))).toMatch(/^error: .* status 404/);
    expect(await read(fetcher()(`${url}/zip`))).toContain('zipped');
  });

  const BOMB = Buffer.alloc(20_000_000, 'x');
  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', (text: Buffer) => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
    ['zstd', zstdCompressSync],
  ] as const)('what is compressed with %s is unpacked, up to the cap', async (encoding, compress) => {
    const page = (body: Buffer) => ({
      type: 'text/plain',
      headers: { 'content-encoding': encoding },
      body: compress(body),
    });
    const half = compress(Buffer.from(`a text that was cut ${randomBytes(300_000).toString('hex')}`));
    const { url } = await site({
      '/small': page(Buffer.from('unpacked')),
      '/bomb': page(BOMB),
      '/cut': { ...page(Buffer.from('')), body: half.subarray(0, half.length - 8) },
      '/broken': { ...page(Buffer.from('')), body: 'not compressed at all' },
    });
    const get = fetcher({ max_bytes: 1_000_000 });
    expect(await read(get(`${url}/small`))).toMatch(/unpacked$/);
    expect(await read(get(`${url}/bomb`))).toBe(
      'error: It is larger than 1000000 bytes when it is unpacked.',
    );
    expect(await read(get(`${url}/cut`))).toContain('a text that was cut');
    expect(await read(get(`${url}/broken`))).toMatch(/^error: The page can't be read/);
  });

  test('a compression that is not known is told', async () => {
    const { url } = await site({ '/': { type: 'text/plain', headers: { 'content-encoding': 'gzip, br' } } });
    expect(await read(fetcher()(`${url}/`))).toMatch(
      /^error: It is compressed in a way that is not known: gzip, br/,
    );
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

  test.each([
    'http://127.0.0.1:PORT/',
    'http://127.1:PORT/',
    'http://localhost:PORT/',
    'http://0x7f000001:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    '//127.0.0.1:PORT/',
    'http://inside.example:PORT/',
    'http://a:b@public.example/',
    'https://127.0.0.1:PORT/',
    'ftp://public.example/',
    'file:///etc/passwd',
    'data:text/plain,inside',
    'javascript:alert(1)',
    'http://',
  ])('a redirect of a public page to %s is refused', async (location) => {
    const { url, hits } = await site({ '/': { body: 'inside' } });
    const strict = createGuard({
      allowPrivate: false,
      resolve: async () => [{ address: '10.0.0.1', family: 4 }],
    });
    const redirecting: Guard = {
      ...strict,
      async request(address, request) {
        if (address !== 'http://public.example/') return strict.request(address, request);
        const headers = { location: location.replace('PORT', new URL(url).port) };
        return { status: 307, headers, body: Buffer.alloc(0) };
      },
    };
    const { web_fetch } = configSchema.parse({}).tools;
    const tool = createWebFetchTool({ settings: web_fetch, guard: redirecting });
    expect(await read(tool.execute({ url: 'http://public.example/' }, context()))).toMatch(
      /^error: This address is refused/,
    );
    expect(hits).toEqual([]);
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

  test('a page that drips costs the time limit, in its headers and in its body', async () => {
    const drip = (response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const timer = setInterval(() => response.write('.'), 20);
      response.once('close', () => clearInterval(timer));
    };
    const slow = createTcpServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => socket.write('x-drip: 1\r\n'), 20);
      socket.on('error', () => undefined).once('close', () => clearInterval(timer));
    });
    slow.listen(0, '127.0.0.1');
    await once(slow, 'listening');
    later(() => slow.close());
    const { port } = slow.address() as { port: number };
    const { url } = await site({ '/': drip });
    const get = fetcher({ timeout_ms: 300 });
    const answers = await Promise.all([get(`${url}/`), get(`http://127.0.0.1:${port}/`)].map(read));
    for (const answer of answers) expect(answer).toMatch(/^error: The page took longer than 0\.3 seconds/);
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
  const providers = Object.keys(SEARCH_APIS) as SearchApi[];

  const searcher = (provider: string, more: Record<string, unknown> = {}) => {
    const { web_search } = configSchema.parse({
      tools: { web_search: { provider, api_key: KEY, ...more } },
    }).tools;
    const tool = createWebSearchTool(web_search);
    return (query: string, count = 3) => tool.execute({ query, count }, context());
  };
  const api = async (provider: SearchApi) => track(await startSearchServer(provider, KEY));

  test.each(providers)('%s is asked as documented, and its results are read', async (provider) => {
    const { url, requests } = await api(provider);
    const search = searcher(provider, { base_url: `${url}/`, max_results: 20 });
    expect(await read(search('天气 & more'))).toBe(
      [
        "success: 1. Tom & Jerry's <first> (DATE)\nhttps://a.example/1\nabout one",
        '2. Second\nhttps://a.example/2\nabout "two"',
        '3. https://a.example/3\nhttps://a.example/3',
      ]
        .join('\n\n')
        .replace('DATE', SEARCH_APIS[provider].date),
    );
    expect(await read(search('nothing'))).toBe('success: Nothing was found.');
    // The most that may be asked for.
    expect(await read(search('x'.repeat(400), 20))).toMatch(/^success: 1\./);
    expect(requests.map(({ refused }) => refused)).toEqual([undefined, undefined, undefined]);
    expect(requests.map(({ target }) => target).join()).not.toContain(KEY);
  });

  test.each(providers)('%s: its documented errors are told without the key', async (provider) => {
    const { url } = await api(provider);
    for (const [query, told] of Object.entries(SEARCH_APIS[provider].told)) {
      const text = await read(searcher(provider, { base_url: url })(query));
      expect(text, query).toMatch(/^error: The search failed: /);
      expect(text, query).toMatch(told);
      expect(text).not.toContain(KEY);
    }
    const wrong = searcher(provider, { base_url: url, api_key: 'sk-another-key' });
    if (provider !== 'searxng') {
      expect(await read(wrong('q'))).toMatch(/does not accept the key/);
      expect(await read(wrong('q'))).not.toContain('sk-another-key');
    }
  });

  test.each(providers)('%s: whatever else goes wrong is told without the key', async (provider) => {
    const { path } = SEARCH_APIS[provider];
    const wrong: [Page | ((response: ServerResponse) => void), RegExp][] = [
      [{ status: 500, body: KEY }, /status 500/],
      [{ body: `<html>${KEY}` }, /not JSON/],
      [{ body: 'x'.repeat(2_100_000) }, /does not answer/],
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
    const slow = searcher(provider, { base_url: url, timeout_ms: 200 });
    expect(await read(slow('q'))).toMatch(/took longer than 0\.2/);
  });

  test('says what its settings lack', async () => {
    expect(await read(searcher('none')('q'))).toMatch(/provider is none/);
    expect(await read(searcher('brave', { api_key: '' })('q'))).toMatch(/api_key is empty/);
    expect(await read(searcher('searxng')('q'))).toMatch(/base_url is empty/);
  });
});
