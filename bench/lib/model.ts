// A model server that answers at once, in a process of its own (`node bench/lib/model.ts` prints its port as JSON).
// A user's message that holds the word "tool" is answered by one call of `now`, everything else (a tool's result too) by
// a short text. `GET /timings` returns how long each call took here, oldest first, and forgets them: what the benchmark
// subtracts from a message's time; `GET /first` the body of the first call. Deliberately cheaper than the strict fake of the tests, which costs more than a server.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

const chunk = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({
    id: 'bench',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'bench',
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;

const usage = `data: ${JSON.stringify({
  id: 'bench',
  object: 'chat.completion.chunk',
  created: 0,
  model: 'bench',
  choices: [],
  usage: { prompt_tokens: 200, completion_tokens: 20, total_tokens: 220 },
})}\n\n`;

const WORDS = ['It ', 'is ', 'noon ', 'in ', 'the ', 'place ', 'you ', 'asked ', 'about', '.'];

const ANSWER = Buffer.from(
  [
    chunk({ role: 'assistant', content: '' }),
    ...WORDS.map((content) => chunk({ content })),
    chunk({}, 'stop'),
    usage,
    'data: [DONE]\n\n',
  ].join(''),
);

let calls = 0;
const toolCall = (): string => {
  const id = `call_${++calls}`;
  const fn = { name: 'now', arguments: '' };
  return [
    chunk({
      role: 'assistant',
      content: null,
      tool_calls: [{ index: 0, id, type: 'function', function: fn }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{}' } }] }),
    chunk({}, 'tool_calls'),
    usage,
    'data: [DONE]\n\n',
  ].join('');
};

let timings: number[] = [];
let first = '';

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const started = performance.now();
  const parts: Buffer[] = [];
  for await (const part of request) if (Buffer.isBuffer(part)) parts.push(part);
  if (request.method === 'GET') {
    response.setHeader('content-type', 'application/json');
    response.end(request.url === '/first' ? first : JSON.stringify(timings));
    if (request.url !== '/first') timings = [];
    return;
  }
  // What decides is the last message; parsing the whole history would be work that a real model's server does elsewhere.
  const body = Buffer.concat(parts).toString();
  if (first === '') first = body;
  const last = body.slice(body.lastIndexOf('"role":"'));
  const wantsTool =
    last.startsWith('"role":"user"') && /\btool\b/.test(last.slice(0, 2000).split('"tools":')[0] ?? '');
  response.setHeader('content-type', 'text/event-stream').end(wantsTool ? toolCall() : ANSWER);
  timings.push(performance.now() - started);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    response.destroy();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address !== 'string')
    process.stdout.write(`${JSON.stringify({ port: address.port })}\n`);
});
process.on('SIGTERM', () => process.exit(0));
