// One MCP server of the settings: its tools, as last heard, and calls of them. While it is down its tools stay on offer, and
// their calls say what is wrong.
import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js';
import type { McpServerSettings } from '../../../config/schema.ts';
import { orAbort } from '../../time/or-abort.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/log.ts';
import { fail, type Tool, type ToolContext, type ToolResult } from '../../ports/tool.ts';
import { matcher } from '../pattern.ts';
import type { SourceHealth, SourceTool } from '../source.ts';
import type { McpClient } from './client.ts';
import { createConnection } from './connection.ts';
import { filesIn } from './files.ts';
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

const MAX_DESCRIPTION_CHARS = 2_000;
const NONE: readonly SourceTool[] = [];

export function createMcpServer({ name, settings, clock, log: base }: McpServerOptions): McpServer {
  const log = base.child({ mcp: name });
  const wanted = matcher(settings.allow);
  const unwanted = matcher(settings.deny);
  let listed: readonly SourceTool[] | undefined;
  let heard = '';
  let stale = false;
  const connection = createConnection({
    settings,
    clock,
    log,
    async onConnect(client) {
      await ask(client);
      log.info({ tools: known().length }, 'MCP server is connected');
    },
    onToolsChanged: () => (stale = true),
  });
  const { reasonOf } = connection;

  const known = () => listed ?? NONE;

  /** The same array if the server says the same. */
  async function ask(client: McpClient): Promise<void> {
    const tools = await client.list();
    stale = false;
    const offered = tools.filter(
      (tool) => wanted(tool.name) && !unwanted(tool.name) && tool.execution?.taskSupport !== 'required',
    );
    const text = JSON.stringify(offered);
    if (text === heard) return;
    heard = text;
    listed = offered.map((tool) => ({ tool: toTool(tool), from: `mcp:${name}` }));
  }

  async function refreshed(): Promise<readonly SourceTool[]> {
    try {
      const client = await connection.get();
      if (stale) await ask(client);
    } catch (error) {
      log.debug({ problem: reasonOf(error) }, 'MCP server: its tools are those it had');
    }
    return known();
  }

  function toTool(tool: McpTool): Tool {
    const { readOnlyHint, idempotentHint, title = tool.name } = tool.annotations ?? {};
    return {
      name: tool.name,
      description: (tool.description ?? tool.title ?? title).slice(0, MAX_DESCRIPTION_CHARS),
      parameters: tool.inputSchema,
      // Hints are only worth what the server is worth.
      idempotent: settings.trust_hints && (readOnlyHint === true || idempotentHint === true),
      timeoutMs: settings.timeout_ms,
      execute: (args, context) => call(tool.name, tool.title ?? title, args, context),
    };
  }

  async function call(
    tool: string,
    title: string,
    args: Record<string, unknown>,
    context: Pick<ToolContext, 'signal' | 'progress' | 'media'>,
    again = true,
  ): Promise<ToolResult> {
    const { signal, progress } = context;
    let client: McpClient;
    try {
      client = await orAbort(connection.get(), signal);
    } catch (error) {
      return fail(`The MCP server ${name} can't be reached: ${reasonOf(error)}.`);
    }
    try {
      // Ours ends first, and cancels there; the client's own is for servers that ignore that.
      const timeoutMs = settings.timeout_ms + 1_000;
      const result = await client.call({ name: tool, args, signal, timeoutMs, progress });
      connection.worked();
      const made = toolResult(result, title, settings.send_files);
      return settings.send_files ? { ...made, attachments: await filesIn(result, context.media) } : made;
    } catch (error) {
      if (signal.aborted) throw error;
      if (again && isUnknownSession(error)) {
        // It was restarted: it has not seen this call.
        await connection.drop(client, 'the server has forgotten the session').catch(() => undefined);
        return call(tool, title, args, context, false);
      }
      if (connection.isLive(client) && settings.url !== '' && !isProtocolError(error))
        await connection.drop(client, reasonOf(error)).catch(() => undefined);
      return fail(
        connection.isLive(client)
          ? reasonOf(error)
          : `The MCP server ${name} ended during the call. It is not known whether the call took effect.`,
      );
    }
  }

  return {
    known,
    tools() {
      if ((listed && !stale) || connection.isResting()) return known();
      if (!connection.isDoubtful()) return refreshed();
      // It has failed before: no run waits for it again.
      refreshed().catch((error: unknown) => log.error({ problem: reasonOf(error) }, 'MCP server: no tools'));
      return known();
    },
    health() {
      const { state, detail } = connection.state();
      const count = `${known().length} tools`;
      return { name: `mcp:${name}`, state, ...(state === 'ok' ? { detail: count } : detail && { detail }) };
    },
    close: () => connection.close(),
  };
}

const codeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;

/** HTTP 404: the specification's answer to a session that is not known (any more). */
const isUnknownSession = (error: unknown): boolean => codeOf(error) === 404;

/** JSON-RPC's codes are negative. */
function isProtocolError(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'number' && code < 0;
}
