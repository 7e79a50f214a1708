// One MCP server of the settings: started when a run first needs its tools, one client a process, started again with
// back-off when it has died. Its tools stay on offer meanwhile, and their calls say what is wrong.
import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js';
import type { McpServerSettings } from '../../../config/schema.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/log.ts';
import { fail, type Tool, type ToolContext, type ToolResult } from '../../ports/tool.ts';
import { matcher } from '../pattern.ts';
import type { SourceHealth, SourceTool } from '../source.ts';
import { openClient, redactor, type McpClient } from './client.ts';
import { toolResult } from './result.ts';

export interface McpServerOptions {
  name: string;
  settings: McpServerSettings;
  clock: Pick<Clock, 'now'>;
  log: Logger;
}

export interface McpServer {
  /** As last heard; asks the server when nothing is known yet or it said that something changed. Never rejects. */
  tools(): readonly SourceTool[] | Promise<readonly SourceTool[]>;
  known(): readonly SourceTool[];
  health(): SourceHealth;
  close(): Promise<void>;
}

const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
/** A server that was up for so long has not died of starting. */
const STEADY_MS = 60_000;
const MAX_DESCRIPTION_CHARS = 2_000;
const NONE: readonly SourceTool[] = [];

interface Live {
  client: McpClient;
  sinceMs: number;
  /** Being asked whether it is still there: what goes wrong in that is no new reason to ask. */
  checking: boolean;
}

export function createMcpServer({ name, settings, clock, log: base }: McpServerOptions): McpServer {
  const log = base.child({ mcp: name });
  const hide = redactor(settings);
  const wanted = matcher(settings.allow);
  const unwanted = matcher(settings.deny);
  let live: Live | undefined;
  let connecting: Promise<Live> | undefined;
  let listed: readonly SourceTool[] | undefined;
  let heard = '';
  let stale = false;
  let failures = 0;
  let retryAtMs = 0;
  let problem: string | undefined;
  let closed = false;

  const reasonOf = (error: unknown): string => hide(error instanceof Error ? error.message : String(error));

  function failed(reason: string, delayMs: number): void {
    problem = reason;
    retryAtMs = clock.now() + delayMs;
    log.warn(
      { problem: reason, retryInMs: delayMs },
      'MCP server is down; it is started again when it is needed',
    );
  }

  function lose(lost: Live, reason: string): void {
    if (live !== lost) return;
    live = undefined;
    stale = true;
    if (closed) return;
    failures = clock.now() - lost.sinceMs > STEADY_MS ? 1 : failures + 1;
    // The first time at once: somebody may have restarted it.
    failed(reason, failures === 1 ? 0 : backOffMs(failures - 1));
  }

  /** The connection, made if there is none. Rejects while it is waiting to be tried again. */
  function connect(): Promise<Live> {
    if (live) return Promise.resolve(live);
    if (closed) return Promise.reject(new Error('the server is shutting down'));
    if (connecting) return connecting;
    const waitMs = retryAtMs - clock.now();
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000);
      return Promise.reject(new Error(`${problem ?? 'it is down'}; tried again in ${seconds} s`));
    }
    connecting = open().finally(() => (connecting = undefined));
    return connecting;
  }

  async function open(): Promise<Live> {
    let made: Live | undefined;
    let gone = false;
    try {
      const client = await openClient({
        settings,
        log,
        onClose() {
          gone = true;
          if (made) lose(made, 'the server has ended');
        },
        onToolsChanged: () => (stale = true),
        onTrouble() {
          if (made && settings.url !== '') checkOn(made);
        },
      });
      made = { client, sinceMs: clock.now(), checking: false };
      take(await client.list());
      if (gone) throw new Error('the server has ended');
      if (closed) throw new Error('the server is shutting down');
      live = made;
      problem = undefined;
      log.info({ tools: listed?.length ?? 0 }, 'MCP server is connected');
      return made;
    } catch (error) {
      await made?.client.close().catch(() => undefined);
      failures++;
      if (!closed) failed(reasonOf(error), backOffMs(failures));
      throw error;
    }
  }

  /** Over HTTP nobody says that the other side has gone: calls would wait for their time-outs. */
  function checkOn(suspect: Live): void {
    if (live !== suspect || suspect.checking) return;
    suspect.checking = true;
    suspect.client
      .ping()
      .then((alive) => {
        suspect.checking = false;
        return alive ? undefined : drop(suspect, 'the server does not answer');
      })
      .catch((error: unknown) => log.warn({ problem: reasonOf(error) }, 'MCP server could not be checked'));
  }

  async function drop(lost: Live, reason: string): Promise<void> {
    lose(lost, reason);
    await lost.client.close();
  }

  /** The same array if the server says the same. */
  function take(tools: readonly McpTool[]): void {
    stale = false;
    const offered = tools.filter(
      (tool) => wanted(tool.name) && !unwanted(tool.name) && tool.execution?.taskSupport !== 'required',
    );
    const text = JSON.stringify(offered);
    if (text === heard) return;
    heard = text;
    listed = offered.map((tool) => ({ tool: toTool(tool), from: `mcp:${name}` }));
  }

  const toTool = (tool: McpTool): Tool => {
    const { readOnlyHint, idempotentHint, title } = tool.annotations ?? {};
    return {
      name: tool.name,
      description: (tool.description ?? tool.title ?? title ?? tool.name).slice(0, MAX_DESCRIPTION_CHARS),
      parameters: tool.inputSchema,
      // Hints are only worth what the server is worth.
      idempotent: settings.trust_hints && (readOnlyHint === true || idempotentHint === true),
      timeoutMs: settings.timeout_ms,
      execute: (args, context) => call(tool.name, tool.title ?? title ?? tool.name, args, context),
    };
  };

  async function call(
    tool: string,
    title: string,
    args: Record<string, unknown>,
    { signal, progress }: ToolContext & { progress(text: string): void },
    again = true,
  ): Promise<ToolResult> {
    let used: Live;
    try {
      used = await unlessAborted(connect(), signal);
    } catch (error) {
      return fail(`The MCP server ${name} can't be reached: ${reasonOf(error)}.`);
    }
    try {
      // Ours ends first, and cancels there; the client's own is for servers that ignore that.
      const timeoutMs = settings.timeout_ms + 1_000;
      const result = await used.client.call({ name: tool, args, signal, timeoutMs, progress });
      failures = 0;
      return toolResult(result, title);
    } catch (error) {
      if (signal.aborted) throw error;
      if (again && isUnknownSession(error)) {
        // It was restarted: it has not seen this call.
        await drop(used, 'the server has forgotten the session').catch(() => undefined);
        return call(tool, title, args, { signal, progress } as ToolContext, false);
      }
      if (live === used && settings.url !== '' && !isProtocolError(error))
        await drop(used, reasonOf(error)).catch(() => undefined);
      if (live !== used)
        return fail(
          `The MCP server ${name} ended during the call. It is not known whether the call took effect.`,
        );
      return fail(reasonOf(error));
    }
  }

  return {
    tools() {
      if (listed && !stale) return listed;
      if (!live && !connecting && clock.now() < retryAtMs) return listed ?? NONE;
      if (failures === 0) return refreshed();
      // It has failed before: no run waits for it again.
      refreshed().catch((error: unknown) => log.error({ problem: reasonOf(error) }, 'MCP server: no tools'));
      return listed ?? NONE;
    },
    known: () => listed ?? NONE,
    health() {
      const count = listed?.length ?? 0;
      if (live) return { name: `mcp:${name}`, state: 'ok', detail: `${count} tools` };
      if (connecting) return { name: `mcp:${name}`, state: 'starting' };
      if (problem === undefined) return { name: `mcp:${name}`, state: 'idle' };
      return { name: `mcp:${name}`, state: 'down', detail: problem };
    },
    async close() {
      closed = true;
      await connecting?.catch(() => undefined);
      const last = live;
      live = undefined;
      await last?.client.close();
    },
  };

  async function refreshed(): Promise<readonly SourceTool[]> {
    try {
      const { client } = await connect();
      if (stale) take(await client.list());
    } catch (error) {
      log.debug({ problem: reasonOf(error) }, 'MCP server: its tools are those it had');
    }
    return listed ?? NONE;
  }
}

const backOffMs = (failures: number): number => Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (failures - 1));

const codeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;

/** HTTP 404: the specification's answer to a session that is not known (any more). */
const isUnknownSession = (error: unknown): boolean => codeOf(error) === 404;

/** JSON-RPC's codes are negative. */
function isProtocolError(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'number' && code < 0;
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
