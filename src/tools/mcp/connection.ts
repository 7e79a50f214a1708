// The connection to one MCP server, for the whole process: made when it is first needed, made again with back-off when it is
// lost, ended on drain. What the server offers is server.ts' business.
import type { McpServerSettings } from '../../../config/schema.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/log.ts';
import type { SourceHealth } from '../source.ts';
import { openClient, redactor, type McpClient } from './client.ts';

export interface ConnectionOptions {
  settings: McpServerSettings;
  clock: Pick<Clock, 'now'>;
  log: Logger;
  /** A new connection is there; it counts as made when this resolves. */
  onConnect(client: McpClient): Promise<void>;
  onToolsChanged(): void;
}

export interface Connection {
  /** Rejects if it can't be made, and at once while it waits to be tried again. */
  get(): Promise<McpClient>;
  /** The one in use now. */
  isLive(client: McpClient): boolean;
  /** It does not work: the next get() makes another. */
  drop(client: McpClient, reason: string): Promise<void>;
  /** A call came back: what failed before is forgotten. */
  worked(): void;
  /** It failed before: get() may take long, or reject. */
  isDoubtful(): boolean;
  /** It waits to be tried again: get() rejects. */
  isResting(): boolean;
  state(): Pick<SourceHealth, 'state' | 'detail'>;
  /** What went wrong, without secrets. */
  reasonOf(error: unknown): string;
  /** Ends the server with all that it has started. Idempotent. */
  close(): Promise<void>;
}

const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
/** A server that was up for so long has not died of starting. */
const STEADY_MS = 60_000;

interface Live {
  client: McpClient;
  sinceMs: number;
  /** Being asked whether it is still there: what goes wrong in that is no new reason to ask. */
  checking: boolean;
}

export function createConnection({ settings, clock, log, ...told }: ConnectionOptions): Connection {
  const hide = redactor(settings);
  const ending = new AbortController();
  let live: Live | undefined;
  let connecting: Promise<McpClient> | undefined;
  let failures = 0;
  let retryAtMs = 0;
  let problem: string | undefined;

  const reasonOf = (error: unknown): string => hide(error instanceof Error ? error.message : String(error));
  const isResting = () => !live && !connecting && clock.now() < retryAtMs;

  function restAfter(reason: string, delayMs: number): void {
    if (ending.signal.aborted) return;
    problem = reason;
    retryAtMs = clock.now() + delayMs;
    log.warn(
      { problem: reason, retryInMs: delayMs },
      'MCP server is down; it is started again when it is needed',
    );
  }

  function lose(lost: Live, reason: string): void {
    if (live !== lost) return;
    live = undefined;
    told.onToolsChanged();
    failures = clock.now() - lost.sinceMs > STEADY_MS ? 1 : failures + 1;
    // The first time at once: somebody may have restarted it.
    restAfter(reason, failures === 1 ? 0 : backOffMs(failures - 1));
  }

  async function open(): Promise<McpClient> {
    let made: Live | undefined;
    let gone = false;
    try {
      const client = await openClient({
        settings,
        log,
        signal: ending.signal,
        onClose() {
          gone = true;
          if (made) lose(made, 'the server has ended');
        },
        onToolsChanged: told.onToolsChanged,
        onTrouble() {
          if (made && settings.url !== '') checkOn(made);
        },
      });
      made = { client, sinceMs: clock.now(), checking: false };
      await told.onConnect(client);
      if (gone) throw new Error('the server has ended');
      ending.signal.throwIfAborted();
      live = made;
      problem = undefined;
      return client;
    } catch (error) {
      await made?.client.close().catch(() => undefined);
      failures++;
      restAfter(reasonOf(error), backOffMs(failures));
      throw error;
    }
  }

  /** Over HTTP nobody says that the other side has gone: calls would wait for their time-outs. */
  function checkOn(suspect: Live): void {
    if (live !== suspect || suspect.checking) return;
    suspect.checking = true;
    suspect.client
      .ping()
      .then((alive) => {
        suspect.checking = false;
        return alive ? undefined : drop(suspect.client, 'the server does not answer');
      })
      .catch((error: unknown) => log.warn({ problem: reasonOf(error) }, 'MCP server could not be checked'));
  }

  async function drop(client: McpClient, reason: string): Promise<void> {
    if (live?.client === client) lose(live, reason);
    await client.close();
  }

  return {
    async get() {
      if (live) return live.client;
      ending.signal.throwIfAborted();
      if (isResting()) {
        const seconds = Math.ceil((retryAtMs - clock.now()) / 1000);
        throw new Error(`${problem ?? 'it is down'}; tried again in ${seconds} s`);
      }
      connecting ??= open().finally(() => (connecting = undefined));
      return connecting;
    },
    isLive: (client) => live?.client === client,
    drop,
    worked: () => void (failures = 0),
    isDoubtful: () => failures > 0,
    isResting,
    state() {
      if (live) return { state: 'ok' };
      if (connecting) return { state: 'starting' };
      return problem === undefined ? { state: 'idle' } : { state: 'down', detail: problem };
    },
    reasonOf,
    async close() {
      ending.abort(new Error('the server is shutting down'));
      await connecting?.catch(() => undefined);
      const last = live;
      live = undefined;
      await last?.client.close();
    },
  };
}

const backOffMs = (failures: number): number => Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (failures - 1));
