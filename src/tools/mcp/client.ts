// Opens a connection to one MCP server, over stdio or streamable HTTP, and hides which. The SDK is loaded with the first one.
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { CallToolResult, Tool as McpTool } from '@modelcontextprotocol/sdk/types.js';
import type { McpServerSettings } from '../../../config/schema.ts';
import type { Logger } from '../../ports/log.ts';

export interface McpCall {
  name: string;
  args: Record<string, unknown>;
  signal: AbortSignal;
  timeoutMs: number;
  progress(text: string): void;
}

export interface McpClient {
  /** All pages. */
  list(): Promise<McpTool[]>;
  /** Rejects with what the protocol or the connection says. */
  call(call: McpCall): Promise<CallToolResult>;
  /** Does it still answer? */
  ping(): Promise<boolean>;
  /** Ends the session and the process. Idempotent. */
  close(): Promise<void>;
}

export interface OpenOptions {
  settings: McpServerSettings;
  log: Logger;
  /** Gives the start up. */
  signal: AbortSignal;
  /** The connection is gone, whoever ended it. */
  onClose(): void;
  /** The server has other tools now. */
  onToolsChanged(): void;
  /** Something went wrong on the way; the connection may still be good. */
  onTrouble(): void;
}

const MAX_PAGES = 50;
const PING_MS = 5_000;
const MAX_LOG_CHARS = 500;

/** Rejects if the server does not start, or does not say hello in time; nothing of it is left then. */
export async function openClient(options: OpenOptions): Promise<McpClient> {
  const { settings, log, signal: starting } = options;
  const [{ Client }, types] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ]);
  const { transport, endSession, exitCode } = await openTransport(settings, log);
  const client = new Client({ name: 'lanekeeper', version: '1.0.0' }, { capabilities: {} });
  const onerror = (error: Error) => {
    log.debug({ problem: error.message.slice(0, MAX_LOG_CHARS) }, 'MCP server: trouble on the connection');
    options.onTrouble();
  };
  Object.assign(client, { onclose: options.onClose, onerror });
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, options.onToolsChanged);
  const timeout = settings.start_timeout_ms;
  try {
    await client.connect(transport, { timeout, signal: starting });
  } catch (error) {
    await transport.close().catch(() => undefined);
    const code = isTimeout(error) ? null : exitCode();
    // What the connection says (EPIPE, closed) depends on who was faster.
    throw code === null
      ? error
      : new Error(`the program ended at once, with exit code ${code}`, { cause: error });
  }

  return {
    async list() {
      const tools: McpTool[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MAX_PAGES; page++) {
        const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
        const result = await client.request(request, types.ListToolsResultSchema, { timeout });
        tools.push(...result.tools);
        cursor = result.nextCursor;
        if (cursor === undefined) break;
      }
      return tools;
    },
    call: ({ name, args, signal, timeoutMs, progress }) =>
      client.request(
        { method: 'tools/call', params: { name, arguments: args } },
        types.CallToolResultSchema,
        {
          signal,
          timeout: timeoutMs,
          onprogress: ({ progress: done, total, message }) =>
            progress(message ?? (total === undefined ? String(done) : `${done} of ${total}`)),
        },
      ),
    ping: () =>
      client.ping({ timeout: PING_MS }).then(
        () => true,
        () => false,
      ),
    async close() {
      await endSession();
      await client.close();
    },
  };
}

async function openTransport(
  settings: McpServerSettings,
  log: Logger,
): Promise<{ transport: Transport; endSession(): Promise<void>; exitCode(): number | null }> {
  const { command, args, env, cwd, url, headers } = settings;
  if (url === '') {
    const { StdioTransport } = await import('./stdio.ts');
    const hide = redactor(settings);
    const transport = new StdioTransport({
      command,
      args,
      env,
      ...(cwd === '' ? {} : { cwd }),
      onStderr: (line) => log.debug({ line: hide(line).slice(0, MAX_LOG_CHARS) }, 'MCP server: stderr'),
    });
    return { transport, endSession: () => Promise.resolve(), exitCode: () => transport.exitCode };
  }
  const { StreamableHTTPClientTransport } =
    await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  return {
    transport,
    exitCode: () => null,
    // A server that doesn't answer any more ends the session by itself.
    endSession: () =>
      Promise.race([
        transport.terminateSession().catch(() => undefined),
        new Promise<void>((resolve) => setTimeout(resolve, PING_MS / 2).unref()),
      ]),
  };
}

/** The SDK's own code for a request that took too long. */
const isTimeout = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === -32_001;

const SHORTEST_SECRET = 6;

/** Takes out of a text what the settings give to the server in confidence. */
export function redactor({ env, headers, url }: McpServerSettings): (text: string) => string {
  const parsed = URL.parse(url);
  const secrets = [
    ...Object.values(env),
    ...Object.values(headers),
    // "Bearer …"
    ...Object.values(headers).flatMap((value) => value.split(' ')),
    ...(parsed ? [...parsed.searchParams.values(), parsed.password] : []),
  ]
    .filter((value) => value.length >= SHORTEST_SECRET)
    .sort((a, b) => b.length - a.length);
  return (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, '***'), text);
}
