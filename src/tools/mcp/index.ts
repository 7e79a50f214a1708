// The MCP servers of the settings as a source of tools. Nothing is started, and no SDK loaded, before a run needs it.
import type { ToolSettings } from '../../../config/schema.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/log.ts';
import type { SourceTool, ToolSource } from '../source.ts';
import { createMcpServer } from './server.ts';

export interface McpOptions {
  servers: ToolSettings['mcp']['servers'];
  clock: Pick<Clock, 'now'>;
  log: Logger;
}

export function createMcpSource({ servers, clock, log }: McpOptions): ToolSource {
  const all = Object.entries(servers)
    .filter(([, settings]) => settings.enabled)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, settings]) => createMcpServer({ name, settings, clock, log }));
  let lists: (readonly SourceTool[])[] = [];
  let joined: readonly SourceTool[] = [];

  function join(now: (readonly SourceTool[])[]): readonly SourceTool[] {
    if (now.length !== lists.length || now.some((list, n) => list !== lists[n])) {
      lists = now;
      joined = now.flat();
    }
    return joined;
  }

  return {
    tools() {
      const answers = all.map((server) => server.tools());
      const known = answers.filter((answer): answer is readonly SourceTool[] => !(answer instanceof Promise));
      if (known.length === answers.length) return join(known);
      return Promise.all(answers.map(async (answer) => answer)).then(join);
    },
    known: () => join(all.map((server) => server.known())),
    health: () => all.map((server) => server.health()),
    async close() {
      await Promise.all(all.map((server) => server.close()));
    },
  };
}
