// A strict fake of both vendors' streaming APIs on one loopback port: POST /v1/chat/completions (OpenAI) and
// POST /v1/messages (Anthropic). It rejects what the vendors reject, records every request byte for byte, answers as
// scripted (a function, or a queue), and can cut, stall, garble, delay and fail in mid-stream.
//
// In a process of its own, for benchmarks: `node test/fakes/model-server.ts --port 0` prints {"url": …} and answers
// at once without recording.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { anthropicRules, rejectAnthropic, type AnthropicRules } from './model/anthropic-strict.ts';
import { anthropicEvents, anthropicMessage, anthropicRequest } from './model/anthropic-wire.ts';
import { defaultReply } from './model/behaviour.ts';
import { openaiRules, rejectOpenAI, type OpenAIRules } from './model/openai-strict.ts';
import { openaiEvents, openaiMessage, openaiRequest } from './model/openai-wire.ts';
import { isObject } from './model/types.ts';
import type {
  Json,
  RecordedRequest,
  Rejection,
  Script,
  ScriptedReply,
  ScriptRequest,
  Vendor,
} from './model/types.ts';

export type { RecordedRequest, Script, ScriptedReply, ScriptRequest } from './model/types.ts';
export { signatureOf } from './model/anthropic-wire.ts';

export interface ModelServerOptions {
  /** Asked when the queue is empty; undefined means the default behaviour (see model/behaviour.ts). */
  script?: Script;
  port?: number;
  /** Accepted keys; default any non-empty one. */
  keys?: string[];
  /** Anthropic: which header carries the key. Default either. */
  auth?: 'bearer' | 'x-api-key';
  /** False: accept everything. */
  strict?: boolean;
  openai?: Partial<OpenAIRules>;
  anthropic?: Partial<AnthropicRules>;
  /** Parameters accepted beside the vendor's own (extra_body). */
  extraParameters?: string[];
  /** False: keep no requests. */
  record?: boolean;
}

export interface ModelServer {
  /** `http://127.0.0.1:<port>`: the Anthropic base URL. */
  url: string;
  /** With `/v1`: the OpenAI base URL. */
  openaiUrl: string;
  requests: RecordedRequest[];
  /** Answers for the next requests, before the script is asked. */
  enqueue(...replies: ScriptedReply[]): void;
  setScript(script: Script | undefined): void;
  /** Resolves with the n-th request (from 0), as soon as it was received. */
  request(n: number): Promise<RecordedRequest>;
  /** Answers not taken yet. */
  queued(): number;
  /** For the next test on the same server: what is asked from now on, with nothing enqueued and the first script. */
  renewed(): ModelServer;
  /** Told of every new connection, by the client's port. */
  onConnection(listener: (port: number) => void): void;
  close(): Promise<void>;
}

export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const queue: ScriptedReply[] = [];
  const requests: RecordedRequest[] = [];
  const waiting = new Map<number, ((request: RecordedRequest) => void)[]>();
  let script = options.script;
  let count = 0;

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const raw = await readBody(request);
    const vendor = vendorOf(request);
    if (!vendor) return problem(response, 'openai', { status: 404, type: 'not_found', message: 'Not found' });
    const recorded: RecordedRequest = {
      n: count++,
      vendor,
      path: request.url ?? '',
      headers: Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      ),
      raw,
      body: parse(raw),
      at: Date.now(),
      aborted: new Promise((resolve) => {
        response.once('close', () => {
          if (!response.writableFinished) resolve();
        });
      }),
    };
    if (options.record !== false) {
      requests.push(recorded);
      for (const resolve of waiting.get(recorded.n) ?? []) resolve(recorded);
      waiting.delete(recorded.n);
    }
    const rejection = check(recorded, options);
    if (rejection) {
      recorded.rejected = rejection.message;
      return problem(response, vendor, rejection);
    }
    const asked = vendor === 'openai' ? openaiRequest(recorded) : anthropicRequest(recorded);
    const reply = queue.shift() ?? (await script?.(asked)) ?? defaultReply(asked);
    return answer(response, asked, reply);
  };

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else
        problem(response, 'openai', { status: 500, type: 'server_error', message: `fake: ${String(error)}` });
    });
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');
  const url = `http://127.0.0.1:${address.port}`;

  /** What is asked from the n-th request on. */
  const since = (from: number): ModelServer => ({
    url,
    openaiUrl: `${url}/v1`,
    get requests() {
      return from === 0 ? requests : requests.slice(from);
    },
    enqueue: (...replies) => void queue.push(...replies),
    setScript: (next) => void (script = next),
    request: async (n) =>
      requests[from + n] ??
      new Promise((resolve) => {
        waiting.set(from + n, [...(waiting.get(from + n) ?? []), resolve]);
      }),
    queued: () => queue.length,
    renewed() {
      queue.length = 0;
      script = options.script;
      return since(requests.length);
    },
    onConnection: (listener) => void server.on('connection', (socket) => listener(socket.remotePort ?? 0)),
    close: async () => {
      if (!server.listening) return;
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  });
  return since(0);
}

function vendorOf(request: IncomingMessage): Vendor | undefined {
  if (request.method !== 'POST') return undefined;
  const path = (request.url ?? '').split('?')[0] ?? '';
  if (path.endsWith('/chat/completions')) return 'openai';
  return path === '/v1/messages' ? 'anthropic' : undefined;
}

function check(request: RecordedRequest, options: ModelServerOptions): Rejection | undefined {
  const { headers, vendor, body } = request;
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1];
  const key =
    vendor === 'openai' || options.auth === 'bearer'
      ? bearer
      : options.auth === 'x-api-key'
        ? headers['x-api-key']
        : (headers['x-api-key'] ?? bearer);
  if (!key || (options.keys && !options.keys.includes(key)))
    // The vendor quotes the key in its answer: nothing of it may reach a log.
    return {
      status: 401,
      type: vendor === 'openai' ? 'invalid_request_error' : 'authentication_error',
      message: `Incorrect API key provided: ${key ?? ''}. You can find your API key in your account.`,
    };
  if (options.strict === false) return undefined;
  if (vendor === 'anthropic' && !/^\d{4}-\d\d-\d\d$/.test(headers['anthropic-version'] ?? ''))
    return { status: 400, type: 'invalid_request_error', message: 'anthropic-version: header is required' };
  return vendor === 'openai'
    ? rejectOpenAI(body, { ...openaiRules, ...options.openai }, options.extraParameters)
    : rejectAnthropic(body, { ...anthropicRules, ...options.anthropic }, options.extraParameters);
}

async function answer(response: ServerResponse, request: ScriptRequest, reply: ScriptedReply): Promise<void> {
  if (reply.delayMs) await sleep(reply.delayMs);
  await reply.hold;
  if (reply.status !== undefined && reply.status !== 200) return failure(response, request, reply);
  if (reply.raw !== undefined) {
    response.writeHead(200, { 'content-type': reply.contentType ?? 'text/event-stream', ...reply.headers });
    response.end(reply.raw);
    return;
  }
  if (request.body.stream !== true) {
    response.writeHead(200, { 'content-type': 'application/json', ...reply.headers });
    const message =
      request.vendor === 'openai' ? openaiMessage(reply, request) : anthropicMessage(reply, request);
    response.end(JSON.stringify(message));
    return;
  }
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    ...reply.headers,
  });
  const events = request.vendor === 'openai' ? openaiEvents(reply, request) : anthropicEvents(reply, request);
  await stream(
    response,
    events.map((event) => sse(event, request.vendor)),
    reply,
    request.vendor,
  );
}

/** Without faults and pauses all events leave in one write, so that a benchmark measures its client and not the fake. */
async function stream(
  response: ServerResponse,
  events: string[],
  reply: ScriptedReply,
  vendor: Vendor,
): Promise<void> {
  const faults = [
    reply.cutAfter,
    reply.endAfter,
    reply.stallAfter,
    reply.garbleAfter,
    reply.errorAfter?.after,
    reply.chunkDelayMs,
  ];
  if (faults.every((fault) => fault === undefined)) {
    response.end(events.join(''));
    return;
  }
  response.flushHeaders();
  for (let n = 0; n <= events.length; n++) {
    if (response.destroyed) return;
    if (n === reply.cutAfter) return void response.destroy();
    if (n === reply.endAfter) return void response.end();
    if (n === reply.stallAfter) return;
    if (n === reply.garbleAfter) response.write('event: message\ndata: {"garbled": tru\n\n');
    if (n === reply.errorAfter?.after) {
      const { error, named } = reply.errorAfter;
      const name = (named ?? vendor === 'anthropic') ? 'event: error\n' : '';
      response.write(
        `${name}data: ${JSON.stringify(vendor === 'openai' ? { error } : { type: 'error', error })}\n\n`,
      );
      return void response.end();
    }
    if (n < events.length) await write(response, events[n] ?? '');
    if (reply.chunkDelayMs) await sleep(reply.chunkDelayMs);
  }
  response.end();
}

/** Resolves when the bytes went to the socket, so that a cut after them does not swallow them. */
const write = async (response: ServerResponse, text: string): Promise<void> =>
  new Promise((resolve) => {
    response.write(text, () => resolve());
  });

function sse(event: Json | string, vendor: Vendor): string {
  const data = typeof event === 'string' ? event : JSON.stringify(event);
  const name = vendor === 'anthropic' && isObject(event) ? `event: ${String(event.type)}\n` : '';
  return `${name}data: ${data}\n\n`;
}

function failure(response: ServerResponse, request: ScriptRequest, reply: ScriptedReply): void {
  const status = reply.status ?? 500;
  const error =
    typeof reply.error === 'string' ? { type: typeOf(status), message: reply.error } : reply.error;
  const wrapped =
    request.vendor === 'openai' ? { error } : { type: 'error', error, request_id: `req_${request.n}` };
  response.writeHead(status, { 'content-type': reply.contentType ?? 'application/json', ...reply.headers });
  response.end(reply.raw ?? (error ? JSON.stringify(wrapped) : ''));
}

const typeOf = (status: number): string =>
  ({
    400: 'invalid_request_error',
    401: 'authentication_error',
    429: 'rate_limit_error',
    529: 'overloaded_error',
  })[status] ?? 'api_error';

function problem(response: ServerResponse, vendor: Vendor, rejection: Rejection): void {
  const error = { type: rejection.type, message: rejection.message };
  response.writeHead(rejection.status, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify(
      vendor === 'openai' ? { error: { ...error, param: null, code: null } } : { type: 'error', error },
    ),
  );
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  request.setEncoding('utf8');
  for await (const chunk of request) text += String(chunk);
  return text;
}

function parse(raw: string): Json {
  try {
    const value: unknown = JSON.parse(raw);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

if (import.meta.main) {
  const at = process.argv.indexOf('--port');
  const server = await startModelServer({
    port: at === -1 ? 0 : Number(process.argv[at + 1]),
    record: false,
    strict: !process.argv.includes('--lenient'),
  });
  console.log(JSON.stringify({ url: server.url, openai_url: server.openaiUrl }));
  const stop = () => {
    server.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}
