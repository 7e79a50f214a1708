// A set of tools as a server has it, and runs of the agent that call them.
import { readdir, readFile } from 'node:fs/promises';
import { configSchema } from '../../config/schema.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import { textOf, type Message, type ToolResultBlock } from '../../src/domain/messages.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { systemClock } from '../../src/system-clock.ts';
import { builtInTools, createToolset, type Toolset } from '../../src/tools/index.ts';
import { messagesOf, play, start, type Play, type PlayOptions, type ScriptedCall } from './agent.ts';
import { recordingLog, type LogLine } from './log.ts';

export interface TestToolset extends Toolset {
  lines: LogLine[];
  /** In a run that goes on after this resolves. */
  start(calls: readonly ScriptedCall[], more?: PlayOptions): Promise<Play>;
  /** Makes the calls in a run, one after the other, and returns their results. */
  call(...calls: ScriptedCall[]): Promise<ToolResultBlock[]>;
  /** Of the last `call`. */
  events: Play['events'];
}

interface Options {
  /** Tells the time to what waits for it; runs take the real one. */
  clock?: Pick<Clock, 'now'>;
  media?: MediaStore;
}

/** `settings`: of the section `tools`. */
export function createTestToolset(
  settings: Record<string, unknown>,
  { clock = systemClock, media }: Options = {},
): TestToolset {
  const { log, lines } = recordingLog();
  const tools = createToolset({
    settings: configSchema.parse({ tools: { enabled: [], ...settings } }).tools,
    builtIn: builtInTools(systemClock),
    check: (tool, args) => checkArguments(tool, args, false),
    clock: { ...systemClock, ...clock },
    log,
  });
  const options = async (calls: readonly ScriptedCall[]): Promise<PlayOptions> => ({
    tools: await tools.forRun(),
    clock: systemClock,
    script: [...calls.map((call) => ({ calls: [call] })), 'done'],
    ...(media ? { media } : {}),
  });
  const made: TestToolset = {
    ...tools,
    lines,
    events: [],
    start: async (calls, more = {}) => start({ ...(await options(calls)), ...more }),
    async call(...calls) {
      const played = await play(await options(calls));
      made.events = played.events;
      return resultsIn(messagesOf(played.result));
    },
  };
  return made;
}

export const resultsIn = (messages: readonly Message[]): ToolResultBlock[] =>
  messages.flatMap(({ content }) => content.filter((block) => block.type === 'tool_result'));

/** Of a run, when it has ended. */
export const resultsOf = async (run: Play): Promise<ToolResultBlock[]> =>
  resultsIn(messagesOf(await run.result));

export const texts = (results: readonly ToolResultBlock[]): string[] =>
  results.map(({ content }) => textOf(content));

/** Processes whose command line holds the text, this one aside. */
export async function processesWith(text: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      return line.includes(text) && !/\) Z /.test(state) ? [Number(pid)] : [];
    }),
  );
  return found.flat().filter((pid) => pid !== process.pid);
}
