// The built-in tools. Off unless named in `tools.enabled`; sorted by name, so that the prompt's prefix is stable.
import type { Clock } from '../ports/clock.ts';
import type { Tool } from '../ports/tool.ts';
import { createNowTool } from './now.ts';

export const builtInTools = (clock: Clock): Tool[] => [createNowTool(clock)];

export function enabledTools(tools: readonly Tool[], enabled: readonly string[]): Tool[] {
  const names = new Set(enabled);
  return tools.filter((tool) => names.has(tool.name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}
