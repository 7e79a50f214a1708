// The tools of a server: from all sources, named, sorted, and frozen for each run; who may use which; what the management
// API says of them.
import type { ToolSettings } from '../../config/schema.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { Tool } from '../ports/tool.ts';
import { builtInProblems, createBuiltInSource } from './built-in.ts';
import { createCalculateTool } from './calculate.ts';
import { createFindTools, type CheckArguments, type FindTools } from './find-tools.ts';
import { createFolderSource } from './folder.ts';
import { createMcpSource } from './mcp/index.ts';
import { nameTools, type NamedTool } from './names.ts';
import { createNowTool } from './now.ts';
import { createCurrentPermissions, type RuleSettings, type ToolUser } from './permissions.ts';
import { createSkillsSource } from './skills.ts';
import type { SourceHealth, SourceTool, ToolSource } from './source.ts';

export type { SourceHealth } from './source.ts';

/** Those that need no settings. Off unless named in `tools.enabled`. */
export const builtInTools = (clock: Clock): Tool[] => [createCalculateTool(), createNowTool(clock)];

export interface ToolsetOptions {
  settings: ToolSettings;
  /** In force now: they may change while the server runs. Default: those of the settings. */
  rules?: () => RuleSettings;
  /** Those that `tools.enabled` chooses from. */
  builtIn: readonly Tool[];
  check: CheckArguments;
  clock: Clock;
  log: Logger;
}

export interface ToolReport {
  items: {
    name: string;
    description: string;
    from: string;
    /** For whom, in words: the rules that speak of it, in order. */
    for: string[];
    idempotent: boolean;
    /** `find_tools`: not in the prompt, but found. */
    reached: 'directly' | 'find_tools';
  }[];
  sources: SourceHealth[];
}

export interface Toolset {
  /** Loads what is loaded at the start; what is wrong is logged by name and doesn't keep the server from starting. */
  load(): Promise<void>;
  /** For one run. Starts what isn't started; never rejects. */
  forRun(): Promise<Tool[]>;
  /** Skills, for the system prompt; empty without any. */
  prompt(): Promise<string>;
  /** For one run: why a call is refused. Undefined when there are no rules: no call needs to ask. */
  refusal(): ((tool: Tool, args: Record<string, unknown>, user: ToolUser) => string | undefined) | undefined;
  /** As of the last run. Starts nothing. */
  report(): ToolReport;
  close(): Promise<void>;
}

/** What one run gets. */
interface Offer {
  from: readonly (readonly SourceTool[])[];
  all: NamedTool[];
  offered: Tool[];
  find: FindTools | undefined;
}

export function createToolset(options: ToolsetOptions): Toolset {
  const { settings, log } = options;
  const rules = options.rules ?? (() => settings);
  const permissions = createCurrentPermissions(rules);
  const folder = createFolderSource({ folder: settings.folder, log });
  const skills = createSkillsSource({ folder: settings.skills, log });
  const mcp = createMcpSource({ servers: settings.mcp.servers, clock: options.clock, log });
  const sources: ToolSource[] = [createBuiltInSource(options), folder, skills, mcp];
  /** What rules may call a tool, for every tool that some run has. */
  const namesOf = new WeakMap<Tool, string[]>();
  const finders = new WeakMap<Tool, FindTools>();
  let last: Offer | undefined;

  async function offer(): Promise<Offer> {
    const lists: (readonly SourceTool[])[] = [];
    const asked = sources.map((source) => source.tools());
    // Without a wait where there is nothing to wait for: this is in the path of every run.
    for (const list of asked) lists.push(list instanceof Promise ? await list : list);
    if (!last || lists.some((list, n) => list !== last?.from[n])) {
      last = makeOffer(lists, options);
      for (const { tool, names } of last.all) namesOf.set(tool, names);
      if (last.find) finders.set(last.find.tool, last.find);
    }
    return last;
  }

  return {
    load: async () => {
      await folder.reload();
      for (const problem of builtInProblems(options))
        log.error({ problem }, 'a tool that is enabled cannot be used');
    },
    forRun: async () => (await offer()).offered,
    prompt: skills.prompt,
    refusal() {
      if (rules().rules.length === 0) return undefined;
      const granted = permissions();
      return (tool, args, user) => {
        const meant = finders.get(tool)?.target(args) ?? tool;
        return granted.refusal(namesOf.get(meant) ?? [meant.name], user);
      };
    },
    report() {
      const granted = permissions();
      const shown = new Set(last?.offered);
      return {
        items: (last?.all ?? []).map(({ tool, from, names }) => ({
          name: tool.name,
          description: tool.description,
          from,
          for: granted.describe(names),
          idempotent: tool.idempotent,
          reached: shown.has(tool) ? 'directly' : 'find_tools',
        })),
        sources: sources.flatMap((source) => source.health()),
      };
    },
    async close() {
      await Promise.all(sources.map(async (source) => source.close?.()));
    },
  };
}

function makeOffer(lists: Offer['from'], { settings, check }: ToolsetOptions): Offer {
  const all = nameTools(lists.flat());
  const byName = (a: NamedTool, b: NamedTool) => (a.tool.name < b.tool.name ? -1 : 1);
  // What the operator wrote comes before what other programs bring.
  const ranked = all.toSorted((a, b) => rank(a) - rank(b) || byName(a, b));
  const fits = ranked.length <= settings.offer_max;
  const direct = fits ? ranked : ranked.slice(0, settings.offer_max - 1);
  const hidden = ranked.slice(direct.length).map(({ tool }) => tool);
  const find = fits ? undefined : createFindTools(hidden, check);
  const offered = direct.toSorted(byName).map(({ tool }) => tool);
  return { from: lists, all: all.toSorted(byName), offered: find ? [...offered, find.tool] : offered, find };
}

const rank = ({ from }: NamedTool): number => (from.startsWith('mcp:') ? 1 : 0);
