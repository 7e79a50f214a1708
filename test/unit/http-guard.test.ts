// The SSRF guard: which addresses it refuses, in whatever notation, and that the socket goes where it looked.
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createGuard, refusalOf, UrlRefused } from '../../src/net/guard.ts';

const guard = createGuard({ allowPrivate: false });
const lenient = createGuard({ allowPrivate: true });
const request = (signal = AbortSignal.timeout(5_000)) => ({ method: 'GET', maxBytes: 1_000, signal });

describe('what can be told without DNS', () => {
  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://0x7f.0.0.1/',
    'http://0177.0.0.1/',
    'http://2130706433/',
    'http://１２７.0.0.1/',
    'http://127.0.0.1./',
    'http://0.0.0.0/',
    'http://10.1.2.3/',
    'http://172.16.0.1/',
    'http://192.168.1.1/',
    'http://100.64.0.1/',
    'http://169.254.169.254/latest/meta-data',
    'http://100.100.100.200/',
    'http://168.63.129.16/',
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:a00:1]/',
    'http://[::127.0.0.1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://[fe80::1]/',
    'http://[fc00::1]/',
    'http://[fd00:ec2::254]/',
    'http://[fec0::1]/',
    'http://[ff02::1]/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://a.localhost:8080/',
    // Numbers in other bases, short forms, and what the URL parser takes for the same.
    'http://127.0.1/',
    'http://0177.1/',
    'http://0x7f.1/',
    'http://0x7F000001/',
    'http://017700000001/',
    'http://0/',
    'http:127.0.0.1',
    'http:///127.0.0.1/',
    'http://\t127.0.0.1/',
    'http://127.0.0.1:80\\@example.com/',
    'http://%31%32%37.0.0.1/',
    'http://①②⑦.⓪.⓪.①/',
    'http://127。0。0。1/',
    'http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/',
    'http://loc\u00ADalhost/',
    'http://LOCALHOST%2e/',
    // Not addresses at all.
    'http://256.256.256.256/',
    'http://1.1.1.1.1/',
    'http://[::ffff:0x7f.1]/',
    'http://[fe80::1%25eth0]/',
    'http://[::1%25lo]/',
    // Ways from IPv6 to IPv4.
    'http://[0:0:0:0:0:ffff:7f00:1]/',
    'http://[::ffff:0:7f00:1]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://[64:ff9b:1::a00:1]/',
    'http://[2002:a9fe:a9fe::]/',
    'http://[2001:0:7f00:1::]/',
    // What is nobody's, or everybody's.
    'http://0.1.2.3/',
    'http://192.0.0.192/',
    'http://192.0.2.1/',
    'http://198.18.0.1/',
    'http://198.51.100.1/',
    'http://203.0.113.1/',
    'http://240.0.0.1/',
    'http://192.88.99.1/',
    'http://[100::1]/',
    'http://[2001:db8::1]/',
    'http://[2001:2::1]/',
    'http://[2001:20::1]/',
    'http://[3fff::1]/',
    'http://[5f00::1]/',
  ])('%s is refused', (url) => {
    expect(() => guard.check(url)).toThrow(UrlRefused);
  });

  test.each([
    'ftp://example.com/',
    'file:///etc/passwd',
    'data:,x',
    'http://user:pw@example.com/',
    'http://user@example.com/',
    'http://example.com:80@127.0.0.1/',
    'http://127.0.0.1%2f@example.com/',
    'javascript:alert(1)',
    'gopher://127.0.0.1:6379/_FLUSHALL',
    'ws://example.com/',
    'nonsense',
    '',
  ])('%s is refused even where private addresses are allowed', (url) => {
    expect(() => lenient.check(url)).toThrow(UrlRefused);
  });

  test.each(['https://example.com/hook?x=1', 'http://93.184.216.34:8080/', 'https://[2606:4700::1111]/'])(
    '%s is allowed',
    (url) => {
      expect(guard.check(url).href).toBe(url);
    },
  );

  test('allow-private lets loopback and private through, metadata and link-local never', () => {
    for (const address of ['127.0.0.1', '10.0.0.1', '192.168.0.1', '::1', 'fd12::1', '::ffff:10.0.0.1'])
      expect(refusalOf(address, true)).toBeUndefined();
    for (const address of [
      '169.254.169.254',
      '169.254.1.1',
      'fe80::1',
      'fd00:ec2::254',
      'fd00:ec2::23',
      'fd20:ce::254',
      '169.254.170.2',
      '::ffff:169.254.169.254',
      '::169.254.169.254',
      '64:ff9b::a9fe:a9fe',
      '2002:a9fe:a9fe::',
      'fe80::1%eth0',
      '0.0.0.0',
      '::',
      '224.0.0.1',
    ])
      expect(refusalOf(address, true)).toBeDefined();
  });

  test('a refusal does not repeat the URL', () => {
    expect(() => guard.check('http://10.0.0.1/?token=hush')).toThrow(/^the address is private$/);
  });
});

describe('requests', () => {
  let port = 0;
  let received: IncomingMessage[] = [];
  let respond: (request: IncomingMessage) => {
    status: number;
    headers?: Record<string, string>;
    body?: string;
  };
  const server = createServer((incoming, response) => {
    received.push(incoming);
    const { status, headers = {}, body = '' } = respond(incoming);
    response.writeHead(status, headers).end(body);
  });
  beforeEach(async () => {
    received = [];
    respond = () => ({ status: 200, body: 'ok' });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    port = typeof address === 'object' && address ? address.port : 0;
  });
  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });

  const loopback = async () => [{ address: '127.0.0.1', family: 4 }];

  test('a name is resolved once, and the socket goes to that address', async () => {
    let asked = 0;
    const answers = [loopback, async () => [{ address: '10.9.9.9', family: 4 }]];
    const rebinding = createGuard({ allowPrivate: true, resolve: () => answers[asked++]!() });
    const response = await rebinding.request(`http://rebind.example:${port}/x`, request());
    expect(response).toMatchObject({ status: 200 });
    expect(response.body.toString()).toBe('ok');
    expect(asked).toBe(1);
    expect(received[0]?.headers.host).toBe(`rebind.example:${port}`);
  });

  test.each([
    ['a private address', [{ address: '127.0.0.1', family: 4 }]],
    ['a mapped one', [{ address: '::ffff:127.0.0.1', family: 6 }]],
    [
      'one bad among good ones',
      [
        { address: '93.184.216.34', family: 4 },
        { address: '10.0.0.1', family: 4 },
      ],
    ],
    [
      'a private AAAA beside a public A',
      [
        { address: '93.184.216.34', family: 4 },
        { address: 'fd12::1', family: 6 },
      ],
    ],
    [
      'a private A beside a public AAAA',
      [
        { address: '2606:4700::1111', family: 6 },
        { address: '192.168.1.1', family: 4 },
      ],
    ],
    ['link-local with a zone', [{ address: 'fe80::1%eth0', family: 6 }]],
    ['loopback with a zone', [{ address: '::1%lo', family: 6 }]],
    ['what is no address', [{ address: 'inside.example', family: 4 }]],
    ['no address', []],
  ])('a name that resolves to %s is refused, and nothing is sent', async (_name, addresses) => {
    const strict = createGuard({ allowPrivate: false, resolve: async () => addresses });
    await expect(strict.request(`http://inside.example:${port}/`, request())).rejects.toThrow(UrlRefused);
    expect(received).toHaveLength(0);
  });

  test('a redirect is returned, not followed', async () => {
    respond = () => ({ status: 302, headers: { location: `http://127.0.0.1:${port}/secret` } });
    const response = await lenient.request(`http://127.0.0.1:${port}/`, request());
    expect(response.status).toBe(302);
    expect(received).toHaveLength(1);
  });

  test('a long body is cut off', async () => {
    respond = () => ({ status: 200, body: 'x'.repeat(5_000_000) });
    const response = await lenient.request(`http://127.0.0.1:${port}/`, request());
    expect(response.body.length).toBe(1_000);
  });

  test('the signal ends a request, a body and a resolver that never come to an end', async () => {
    const never = createGuard({ allowPrivate: true, resolve: () => new Promise(() => {}) });
    const reason = new Error('enough');
    await expect(never.request('http://slow.example/', request(AbortSignal.abort(reason)))).rejects.toBe(
      reason,
    );
    const controller = new AbortController();
    server.removeAllListeners('request').on('request', (_request, response) => {
      response.writeHead(200).write('half');
      controller.abort(reason);
    });
    await expect(lenient.request(`http://127.0.0.1:${port}/`, request(controller.signal))).rejects.toThrow();
    server.removeAllListeners('request').on('request', (incoming: IncomingMessage, response) => {
      received.push(incoming);
      const { status, headers = {}, body = '' } = respond(incoming);
      response.writeHead(status, headers).end(body);
    });
  });
});
