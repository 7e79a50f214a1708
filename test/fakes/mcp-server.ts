// An MCP server for tests, a process of its own, over stdio or streamable HTTP: writes down every message that it gets, and
// behaves as its tools are asked to.
//
//   node mcp-server.ts <record file> [http <port>]
//
// With HANG set it does not answer calls whose argument `at` is that; with LINGER it ignores the end of its input and SIGTERM.
import { appendFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CallToolRequestSchema,
  ListToolsRequestSchema,
  type CallToolResult,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';

const [, , file = '', way = 'stdio', port = '0'] = process.argv;

const record = (what: Record<string, unknown>): void =>
  appendFileSync(file, `${JSON.stringify({ pid: process.pid, ...what })}\n`);

const inputSchema = { type: 'object' as const };
const tools: Tool[] = [
  { name: 'env', description: 'Its environment.', inputSchema },
  { name: 'note', description: 'Counts.', inputSchema },
  { name: 'look', description: 'Counts.', inputSchema, annotations: { readOnlyHint: true } },
  { name: 'hold', description: 'Tells its progress, and never answers.', inputSchema },
  { name: 'die', description: 'Ends the server.', inputSchema },
  { name: 'grow', description: 'Brings another tool.', inputSchema },
  { name: 'structured', description: 'Answers with structured content alone.', inputSchema },
  { name: 'refuse', description: 'Answers with an error.', inputSchema },
  { name: 'echo-headers', description: 'The headers of the request.', inputSchema },
];
let calls = 0;

const text = (said: string): CallToolResult => ({ content: [{ type: 'text', text: said }] });

function makeServer(): Server {
  const server = new Server(
    { name: 'test', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    calls++;
    if (params.arguments?.['at'] !== undefined && params.arguments['at'] === process.env['HANG'])
      await new Promise(() => {});
    switch (params.name) {
      case 'env':
        return text(JSON.stringify(process.env));
      case 'hold': {
        const { progressToken } = params._meta ?? {};
        for (const progress of [1, 2]) {
          const more = progress === 1 ? { total: 3 } : { message: 'nearly there' };
          if (progressToken !== undefined)
            await extra.sendNotification({
              method: 'notifications/progress',
              params: { progressToken, progress, ...more },
            });
        }
        await new Promise((resolve) => extra.signal.addEventListener('abort', resolve, { once: true }));
        record({ aborted: true });
        return text('nobody reads this');
      }
      case 'die':
        process.kill(process.pid, 'SIGKILL');
        return text('not reached');
      case 'grow':
        tools.push({ name: `extra-${tools.length}`, description: 'New.', inputSchema });
        await server.sendToolListChanged();
        return text('grown');
      case 'structured':
        return { content: [], structuredContent: { answer: 42 } };
      case 'refuse':
        return { ...text('not today'), isError: true };
      case 'echo-headers':
        return text(JSON.stringify(extra.requestInfo?.headers ?? {}));
      default:
        return text(`${params.name} ${calls}`);
    }
  });
  return server;
}

async function connect(transport: Transport): Promise<void> {
  const server = makeServer();
  await server.connect(transport);
  const pass = transport.onmessage?.bind(transport);
  const onmessage: Transport['onmessage'] = (message, extra) => {
    record({ message });
    pass?.(message, extra);
  };
  Object.assign(transport, { onmessage });
}

record({ started: true });
if (way === 'stdio') {
  await connect(new StdioServerTransport());
  if (process.env['LINGER'] === undefined) process.stdin.on('end', () => process.exit(0));
  else {
    process.on('SIGTERM', () => record({ lingers: true }));
    setInterval(() => undefined, 60_000);
  }
} else {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const http = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://mcp.test');
    if (pathname === '/away')
      return void response.writeHead(307, { location: searchParams.get('to') ?? '' }).end();
    const id = request.headers['mcp-session-id'];
    const known = typeof id === 'string' ? sessions.get(id) : undefined;
    if (id !== undefined && !known) return void response.writeHead(404).end();
    const transport =
      known ??
      new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void sessions.set(session, transport),
        onsessionclosed: (session) => record({ closed: session }),
      });
    const ready = known ? Promise.resolve() : connect(transport);
    ready
      .then(() => transport.handleRequest(request, response))
      .catch((error: unknown) => record({ error: String(error) }));
  });
  http.listen(Number(port), '127.0.0.1', () => {
    process.stdout.write(`${JSON.stringify(http.address())}\n`);
  });
}
