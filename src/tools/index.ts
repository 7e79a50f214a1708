// The tools of a server: from all sources, named, sorted, and frozen for each run; who may use which; what the management
// API says of them.
import type { ToolRule, ToolSettings } from '../../config/schema.ts';
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
import { createCurrentPermissions, type IsAdmin, type ToolUser } from './permissions.ts';
import { createSkillsSource } from './skills.ts';
import type { SourceHealth, SourceTool, ToolSource } from './source.ts';

export type { SourceHealth } from './source.ts';

/** Those that need no settings. Off unless named in `tools.enabled`. */
export const builtInTools = (clock: Clock): Tool[] => [createCalculateTool(), createNowTool(clock)];

export interface ToolsetOptions {
  settings: ToolSettings;
  /** In force now: they may change while the server runs. Default: those of the settings. */
  rules?: () => readonly ToolRule[];
  /** Likewise. Default: nobody is. */
  isAdmin?: IsAdmin;
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
    /** `find_tools`: not in the prompt, but found. `after_run`: not by the model. */
    reached: 'directly' | 'find_tools' | 'after_run';
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
  /** What is on, as last known. Starts nothing. */
  report(): ToolReport;
  close(): Promise<void>;
}

/** What one run gets. */
interface Offer {
  /** What the sources have, in their order. */
  from: readonly (readonly SourceTool[])[];
  /** Sorted by name. */
  all: NamedTool[];
  /** For the model, sorted by name, find_tools last; then those for after the run. */
  offered: Tool[];
  find: FindTools | undefined;
}

export function createToolset(options: ToolsetOptions): Toolset {
  const { settings, log, check } = options;
  const rules = options.rules ?? (() => settings.rules);
  const permissions = createCurrentPermissions(rules, options.isAdmin ?? (() => false));
  const folder = createFolderSource({ folder: settings.folder, check, log });
  const skills = createSkillsSource({ folder: settings.skills, log });
  const mcp = createMcpSource({ servers: settings.mcp.servers, clock: options.clock, log });
  const sources: ToolSource[] = [createBuiltInSource(options), folder, skills, mcp];
  /** What rules may call a tool, for every tool that some run has. */
  const namesOf = new WeakMap<Tool, string[]>();
  const finders = new WeakMap<Tool, FindTools>();
  let last: Offer | undefined;

  /** The same one as long as the lists are the same. */
  function offerOf(lists: Offer['from']): Offer {
    if (last && lists.every((list, n) => list === last?.from[n])) return last;
    const offer = makeOffer(lists, options);
    for (const { tool, names } of offer.all) namesOf.set(tool, names);
    if (offer.find) finders.set(offer.find.tool, offer.find);
    last = offer;
    return offer;
  }

  return {
    async load() {
      await Promise.all([folder.reload(), skills.tools()]);
      for (const problem of builtInProblems(options))
        log.error({ problem }, 'a tool that is enabled cannot be used');
    },
    async forRun() {
      const lists: (readonly SourceTool[])[] = [];
      const asked = sources.map((source) => source.tools());
      // Without a wait where there is nothing to wait for: this is in the path of every run.
      for (const list of asked) lists.push(list instanceof Promise ? await list : list);
      return offerOf(lists).offered;
    },
    prompt: skills.prompt,
    refusal() {
      if (rules().length === 0) return undefined;
      const granted = permissions();
      return (tool, args, user) => {
        const meant = finders.get(tool)?.target(args) ?? tool;
        return granted.refusal(namesOf.get(meant) ?? [meant.name], user);
      };
    },
    report() {
      const granted = permissions();
      const { all, offered } = offerOf(sources.map((source) => source.known()));
      const shown = new Set(offered);
      const reached = (tool: Tool) => (shown.has(tool) ? 'directly' : 'find_tools');
      return {
        items: all.map(({ tool, from, names }) => ({
          name: tool.name,
          description: tool.description,
          from,
          for: granted.describe(names),
          idempotent: tool.idempotent,
          reached: isAfterRun(tool) ? 'after_run' : reached(tool),
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
  const all = nameTools(lists.flat()).sort(byName);
  const afterRun = all.filter(({ tool }) => isAfterRun(tool));
  const callable = all.filter(({ tool }) => !isAfterRun(tool));
  // What the operator wrote comes before what other programs bring.
  const ranked = callable.toSorted((a, b) => rank(a) - rank(b));
  const fits = ranked.length <= settings.offer_max;
  const direct = fits ? ranked : ranked.slice(0, settings.offer_max - 1);
  const hidden = ranked.slice(direct.length).map(({ tool }) => tool);
  const find = fits ? undefined : createFindTools(hidden, check);
  const offered = direct.toSorted(byName).map(({ tool }) => tool);
  if (find) offered.push(find.tool);
  offered.push(...afterRun.map(({ tool }) => tool));
  return { from: lists, all, offered, find };
}

const byName = (a: NamedTool, b: NamedTool): number => (a.tool.name < b.tool.name ? -1 : 1);

const rank = ({ from }: NamedTool): number => (from.startsWith('mcp:') ? 1 : 0);

const isAfterRun = ({ stage }: Tool): boolean => stage === 'post_process';
