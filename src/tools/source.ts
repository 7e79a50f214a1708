// Where tools come from: the server itself, a folder, skills, MCP servers. index.ts joins them into what a run is offered.
import type { Tool } from '../ports/tool.ts';

/** Sources of our own: their tools keep their names, whatever others call theirs. */
export const BUILT_IN = 'built-in';
export const SKILLS = 'skills';

export interface SourceTool {
  tool: Tool;
  /** `built-in`, `folder`, `skills` or `mcp:<server>`. */
  from: string;
}

export interface SourceHealth {
  name: string;
  /** idle: not started yet, since nothing needed it. down: is tried again. broken: stays so until a person acts. */
  state: 'ok' | 'idle' | 'starting' | 'down' | 'broken';
  detail?: string;
}

export interface ToolSource {
  /** For a run: starts what it needs. The same array as long as nothing changed. Never rejects: what is wrong is in health(). */
  tools(): readonly SourceTool[] | Promise<readonly SourceTool[]>;
  /** As last known: starts nothing, waits for nothing. */
  known(): readonly SourceTool[];
  health(): SourceHealth[];
  /** Lets go of processes and connections. Idempotent. */
  close?(): Promise<void>;
}
