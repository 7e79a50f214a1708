// MCP's stdio transport: a server as a child process, one JSON-RPC message a line. The SDK's own leaves behind what the
// server has started itself (npx starts a shell that starts a server); here the whole process group ends.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { getDefaultEnvironment } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ReadBuffer, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';

export interface StdioOptions {
  command: string;
  args: readonly string[];
  /** Beside PATH, HOME and the like; nothing else is passed on. */
  env: Readonly<Record<string, string>>;
  cwd?: string;
  /** What the server writes to stderr, by line. */
  onStderr(line: string): void;
}

/** A server that has seen its input end gets this long, then again that long after SIGTERM. */
const GRACE_MS = 2_000;
const GROUPS = process.platform !== 'win32';

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: StdioOptions;
  readonly #buffer = new ReadBuffer();
  #child: ChildProcess | undefined;
  #closed: Promise<unknown> = Promise.resolve();
  #exitCode: number | null = null;

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { command, args, env, cwd, onStderr } = this.#options;
    const child = spawn(command, args, {
      env: { ...getDefaultEnvironment(), ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
      // A group of its own: what is started in it can be ended with it, and Ctrl-C at our terminal doesn't reach it.
      detached: GROUPS,
      windowsHide: true,
      ...(cwd === undefined ? {} : { cwd }),
    });
    const spawned = once(child, 'spawn');
    const { stdin, stdout, stderr } = child as Partial<typeof child>;
    if (!stdin || !stdout || !stderr) {
      // Without a free descriptor there are no streams: the error is about to come.
      await spawned;
      return;
    }
    this.#child = child;
    const report = (error: Error) => this.onerror?.(error);
    stdin.on('error', report);
    stdout.on('error', report);
    stdout.on('data', (chunk: Buffer) => this.#read(chunk));
    createInterface({ input: stderr }).on('line', onStderr).on('error', report);
    // `exit` and not `close`: a grandchild may hold the pipes open for ever.
    this.#closed = new Promise((resolve) => {
      child.once('exit', (code) => resolve((this.#exitCode = code)));
      child.once('error', resolve);
    }).then(() => {
      this.#signal('SIGKILL');
      this.#child = undefined;
      this.onclose?.();
    });
    await spawned;
    child.on('error', report);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable) throw new Error('the server has ended');
    if (!stdin.write(serializeMessage(message))) await Promise.race([once(stdin, 'drain'), this.#closed]);
  }

  /** Set when the program has ended by itself. */
  get exitCode(): number | null {
    return this.#exitCode;
  }

  async close(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    child.stdin?.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#endsWithin(GRACE_MS)) return;
      this.#signal(signal);
    }
    await this.#closed;
  }

  async #endsWithin(limitMs: number): Promise<boolean> {
    const controller = new AbortController();
    const { signal } = controller;
    const timer = sleep(limitMs, false, { signal }).catch(() => false);
    const ended = await Promise.race([this.#closed.then(() => true), timer]);
    controller.abort();
    return ended;
  }

  #signal(signal: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(GROUPS ? -pid : pid, signal);
    } catch (error) {
      // ESRCH: all of it is gone.
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH'))
        this.onerror?.(error as Error);
    }
  }

  #read(chunk: Buffer): void {
    try {
      this.#buffer.append(chunk);
    } catch (error) {
      this.onerror?.(error as Error);
      this.#signal('SIGKILL');
      return;
    }
    for (;;) {
      try {
        const message = this.#buffer.readMessage();
        if (message === null) return;
        this.onmessage?.(message);
      } catch (error) {
        // A line that is no message: servers print greetings there.
        this.onerror?.(error as Error);
      }
    }
  }
}
