// What the fake answers when nobody scripted it: enough for end-to-end tests and benchmarks.
//
// `use:now` in the user's text calls the tool `now`; `use:now{"zone":"UTC"}` with arguments; several make parallel
// calls. When results are there it answers `result: …`. Everything else is answered `echo: <text>`.
import type { ScriptedCall, ScriptedReply, ScriptRequest } from './types.ts';

export function defaultReply(request: ScriptRequest): ScriptedReply {
  if (request.results.length > 0) return { text: `result: ${request.results.join(' | ')}` };
  // Without the time stamp that stands before what was said.
  const said = request.text.replace(/^\[[^\]\n]*\] /, '');
  const calls = callsIn(said).filter((call) => request.tools.includes(call.name));
  return calls.length > 0 ? { calls } : { text: `echo: ${said}` };
}

/** The calls a text asks for with `use:name` or `use:name{json}`. */
function callsIn(text: string): ScriptedCall[] {
  const calls: ScriptedCall[] = [];
  for (const match of text.matchAll(/\buse:([A-Za-z0-9_-]+)/g)) {
    const rest = text.slice(match.index + match[0].length);
    calls.push({ name: match[1] ?? '', arguments: rest.startsWith('{') ? balanced(rest) : '{}' });
  }
  return calls;
}

/** The leading {…} of a text, quotes minded. */
function balanced(text: string): string {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '\\') at++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && char === '{') depth++;
    else if (!quoted && char === '}' && --depth === 0) return text.slice(0, at + 1);
  }
  return text;
}
