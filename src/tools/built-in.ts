// The tools that come with the server; `tools.enabled` says which of them are on.
import type { ToolSettings } from '../../config/schema.ts';
import { createGuard } from '../net/guard.ts';
import type { Tool } from '../ports/tool.ts';
import { createSendFileTool } from './send-file.ts';
import { BUILT_IN, type ToolSource } from './source.ts';
import { createWebFetchTool } from './web/fetch.ts';
import { createWebSearchTool, searchProblem } from './web/search.ts';

interface BuiltInOptions {
  settings: ToolSettings;
  /** Those that need no settings. */
  builtIn: readonly Tool[];
}

function allTools({ settings, builtIn }: BuiltInOptions): Tool[] {
  const guard = createGuard({ allowPrivate: settings.web_fetch.allow_private });
  const web = [
    createWebFetchTool({ settings: settings.web_fetch, guard }),
    createWebSearchTool(settings.web_search),
  ];
  return [...builtIn, createSendFileTool(settings.send_file), ...web];
}

export function createBuiltInSource(options: BuiltInOptions): ToolSource {
  const enabled = new Set(options.settings.enabled);
  const on = allTools(options).filter(({ name }) => enabled.has(name));
  const tools = on.map((tool) => ({ tool, from: BUILT_IN }));
  const problem = builtInProblems(options).join('; ');
  return {
    tools: () => tools,
    known: () => tools,
    health: () => [
      problem === '' ? { name: BUILT_IN, state: 'ok' } : { name: BUILT_IN, state: 'broken', detail: problem },
    ],
  };
}

/** What is on and can't work: names that no tool has, settings that are missing. */
export function builtInProblems(options: BuiltInOptions): string[] {
  const { enabled, web_search } = options.settings;
  const known = allTools(options).map(({ name }) => name);
  const unknown = enabled
    .filter((name) => !known.includes(name))
    .map((name) => `tools.enabled names "${name}", which does not exist; there are ${known.join(', ')}`);
  const search = enabled.includes('web_search') ? searchProblem(web_search) : undefined;
  return search === undefined ? unknown : [...unknown, search];
}
