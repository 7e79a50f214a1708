// The server's end: a program of ours as a child process with a line to it.
import { spawn, type ChildProcess } from 'node:child_process';
import { PassThrough, type Duplex } from 'node:stream';
import { createLine, type Line, type LineOptions } from './line.ts';

export interface ProgramOptions extends LineOptions {
  /** A file beside the caller's. */
  program: string;
  /** For Node. */
  flags?: readonly string[];
  /** Default: ours. */
  env?: Readonly<Record<string, string>>;
  /** What it prints: dropped, or read by the caller. */
  output: 'ignore' | 'pipe';
  /** The leader of a process group of its own. */
  detached?: boolean;
}

/** The child is the caller's to watch and to end; an `error` listener has to be there before the next tick. */
export function startProgram({
  program,
  flags = [],
  env,
  output,
  detached = false,
  ...lineOptions
}: ProgramOptions): {
  child: ChildProcess;
  line: Line;
} {
  const child = spawn(process.execPath, [...flags, program], {
    detached,
    stdio: ['ignore', output, output, 'pipe'],
    ...(env === undefined ? {} : { env }),
  });
  // Without a free descriptor there are no streams, only an `error` to come.
  const stdio = child.stdio as ChildProcess['stdio'] | undefined;
  return { child, line: createLine((stdio?.[3] as Duplex | undefined) ?? ended(), lineOptions) };
}

const ended = (): Duplex => new PassThrough().destroy();
