// The `find_tools` tool: one entry in the prompt for all the tools that don't fit into it. The model looks for a tool and
// calls it through this one, so that what was found never changes the list of tools, and prompt caches hold.
import { fail, success, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';

/** Arguments against a tool's schema, as for any other call. `unchecked`: why the schema can't be used. */
export type CheckArguments = (
  tool: Tool,
  args: Record<string, unknown>,
) => { ok: true; args: Record<string, unknown>; unchecked?: string } | { ok: false; message: string };

export const FIND_TOOLS = 'find_tools';

const DESCRIPTION =
  'There are more tools than those listed. `query` looks for some by what they do and returns their names and parameters; `call` with `arguments` then calls one by its name.';

// One object for all: its validator is made once.
const PARAMETERS = {
  type: 'object',
  properties: {
    query: { type: 'string', description: 'Words that describe what you need; empty: all names' },
    call: { type: 'string', description: 'Name of a found tool to call' },
    arguments: { type: 'object', description: 'For `call`: as its parameters say' },
  },
  additionalProperties: false,
};

const MAX_FOUND = 5;
const DEFAULT_TIMEOUT_MS = 120_000;
/** 0: no limit. */
const limitOf = ({ timeoutMs = DEFAULT_TIMEOUT_MS }: Tool): number => timeoutMs;

export interface FindTools {
  tool: Tool;
  /** The tool that a call of find_tools would call. */
  target(args: Record<string, unknown>): Tool | undefined;
}

export function createFindTools(hidden: readonly Tool[], check: CheckArguments): FindTools {
  const byName = new Map(hidden.map((tool) => [tool.name, tool]));
  const target = (args: Record<string, unknown>) =>
    typeof args['call'] === 'string' ? byName.get(args['call']) : undefined;

  async function call(args: Record<string, unknown>, context: ToolContext): Promise<ToolResult> {
    const tool = target(args);
    if (!tool)
      return fail(`There is no tool "${String(args['call'])}" to be found; look for one with query.`);
    const given = args['arguments'];
    const checked = check(tool, isObject(given) ? given : {});
    if (!checked.ok) return fail(checked.message);
    const limitMs = limitOf(tool);
    if (limitMs === 0) return tool.execute(checked.args, context);
    const limit = AbortSignal.timeout(limitMs);
    const signal = AbortSignal.any([context.signal, limit]);
    const { conversation, sender, account, group, callId, media, log, progress } = context;
    const limited = { conversation, sender, account, group, callId, media, log, progress, signal };
    try {
      return await tool.execute(checked.args, limited);
    } catch (error) {
      if (!limit.aborted) throw error;
      return fail(`The tool ${tool.name} took longer than ${limitMs / 1000} seconds and was stopped.`);
    }
  }

  const limits = hidden.map(limitOf);
  return {
    target,
    tool: {
      name: FIND_TOOLS,
      description: DESCRIPTION,
      parameters: PARAMETERS,
      // What it calls may not be.
      idempotent: hidden.every(({ idempotent }) => idempotent),
      timeoutMs: limits.includes(0) ? 0 : Math.max(...limits) + 1_000,
      execute: (args, context) =>
        args['call'] === undefined
          ? Promise.resolve(found(hidden, textOr(args['query'])))
          : call(args, context),
    },
  };
}

/** Names only for an empty query; else the best few in full. */
function found(tools: readonly Tool[], query: string): ToolResult {
  const names = tools.map(({ name }) => name);
  const words = wordsOf(query);
  if (words.length === 0) return success(names.join('\n'), { display: `${names.length} tools` });
  const best = tools
    .map((tool) => ({ tool, score: scoreOf(tool, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, MAX_FOUND)
    .map(({ tool }) => tool);
  const display = `"${query}": ${best.map(({ name }) => name).join(', ') || 'nothing'}`;
  if (best.length === 0) return success(`Nothing found. All names: ${names.join(', ')}`, { display });
  return success(best.map(inFull).join('\n'), { display });
}

const inFull = ({ name, description, parameters }: Tool): string =>
  JSON.stringify({ name, description, parameters });

function scoreOf({ name, description }: Tool, words: readonly string[]): number {
  const inName = name.toLowerCase();
  const inText = description.toLowerCase();
  let score = 0;
  for (const word of words) score += (inName.includes(word) ? 3 : 0) + (inText.includes(word) ? 1 : 0);
  return score;
}

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');

const textOr = (value: unknown): string => (typeof value === 'string' ? value : '');

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
