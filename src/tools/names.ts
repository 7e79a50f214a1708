// Names as the model sees them: valid for every vendor, each once. A name that two sources claim is prefixed with the
// source; what comes with the server keeps its own.
import { createHash } from 'node:crypto';
import type { Tool } from '../ports/tool.ts';
import { FIND_TOOLS } from './find-tools.ts';
import { BUILT_IN, SKILLS, type SourceTool } from './source.ts';

export interface NamedTool extends SourceTool {
  /** As offered first, then `<source>/<name there>`: what rules may say. */
  names: string[];
}

const MAX_CHARS = 64;
const OWN = new Set([BUILT_IN, SKILLS]);

/** In the order of the sources; for the same tools always the same names. */
export function nameTools(tools: readonly SourceTool[]): NamedTool[] {
  const claims = new Map<string, number>();
  const own = tools.filter(({ from }) => OWN.has(from)).map(({ tool }) => tool.name);
  for (const name of [FIND_TOOLS, ...tools.map(({ tool }) => valid(tool.name))])
    claims.set(name, (claims.get(name) ?? 0) + 1);
  const taken = new Set([FIND_TOOLS, ...own]);
  return tools.map(({ tool, from }) => {
    const there = `${from}/${tool.name}`;
    let name = valid(tool.name);
    if (!OWN.has(from)) {
      if ((claims.get(name) ?? 0) > 1) name = valid(`${from.slice(from.indexOf(':') + 1)}_${tool.name}`);
      if (taken.has(name)) name = `${name.slice(0, MAX_CHARS - 9)}_${fingerprint(there)}`;
      taken.add(name);
    }
    return { tool: renamed(tool, name), from, names: [name, there] };
  });
}

/** The same object if nothing is to be changed. */
function renamed(tool: Tool, name: string): Tool {
  return tool.name === name ? tool : { ...tool, name };
}

function valid(name: string): string {
  const clean = name.replace(/[^a-zA-Z0-9_-]/gu, '_');
  return clean.length <= MAX_CHARS && clean !== ''
    ? clean
    : `${clean.slice(0, MAX_CHARS - 9)}_${fingerprint(name)}`;
}

const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8);
