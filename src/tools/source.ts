// Where tools come from: the server itself, a folder, skills, MCP servers. index.ts joins them into what a run is offered.
import type { Tool } from '../ports/tool.ts';

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
  /** What it has now; the same array as long as nothing changed. Never rejects: what is wrong is in health(). */
  tools(): readonly SourceTool[] | Promise<readonly SourceTool[]>;
  health(): SourceHealth[];
  /** Lets go of processes and connections. Idempotent. */
  close?(): Promise<void>;
}
