// The long connection: the platform's events over a WebSocket that the vendor's client keeps up. An event is acknowledged
// when its handler resolves; if it rejects, the platform is told 500 and sends the event again.
import * as lark from '@larksuiteoapi/node-sdk';
import type { FeishuSettings } from '../../../config/schema.ts';
import type { Logger } from '../../../src/ports/log.ts';
import { FeishuError } from './codes.ts';
import { createHttp } from './http.ts';
import { domainOf, httpInstance, sdkLogger } from './sdk.ts';

export interface ConnectionOptions {
  settings: FeishuSettings;
  /** Event type → handler of its body. */
  handlers: Record<string, (event: unknown) => Promise<void>>;
  log: Logger;
  now: () => number;
  onState(state: 'connected' | 'disconnected' | 'failed', detail?: string): void;
}

export interface Connection {
  /** Connects; goes on trying until it is closed. */
  start(): Promise<void>;
  close(): void;
}

const HANDSHAKE_MS = 15_000;
const REQUEST_MS = 15_000;
/** A peer that says nothing after a ping is gone. */
const PONG_SECONDS = 10;
/** What the vendor's client gives up on (wrong secret, too many connections) may be put right in the developer console. */
const RESTART_MS = { first: 5_000, most: 300_000 };

export function createConnection({ settings, handlers, log, now, onState }: ConnectionOptions): Connection {
  const stopped = new AbortController();
  const http = createHttp({ timeoutMs: REQUEST_MS, signal: stopped.signal, now });
  let restartMs = RESTART_MS.first;
  let timer: NodeJS.Timeout | undefined;

  const dispatcher = new lark.EventDispatcher({
    logger: sdkLogger(log),
    loggerLevel: lark.LoggerLevel.error,
  });
  dispatcher.register(handlers);

  const connected = () => {
    restartMs = RESTART_MS.first;
    onState('connected');
  };
  const client = new lark.WSClient({
    appId: settings.app_id,
    appSecret: settings.app_secret,
    domain: domainOf(settings.domain),
    // Every failure is told as a refusal with a code: the vendor's client gives up on it, and the back-off here is ours.
    httpInstance: httpInstance({
      json: (request) =>
        http.json(request).catch((error: unknown) => ({
          code: (error instanceof FeishuError ? error.code : undefined) ?? -1,
          msg: error instanceof Error ? error.message : 'unknown',
          data: {},
        })),
    }),
    logger: sdkLogger(log),
    loggerLevel: lark.LoggerLevel.warn,
    handshakeTimeoutMs: HANDSHAKE_MS,
    wsConfig: { pingTimeout: PONG_SECONDS },
    onReady: connected,
    onReconnected: connected,
    onReconnecting: () => onState('disconnected', 'the long connection broke; connecting again'),
    onError: (error) => {
      onState(
        'failed',
        `the long connection was refused: ${error.message.slice(0, 200)}; check app_id and app_secret`,
      );
      if (stopped.signal.aborted) return;
      timer = setTimeout(() => void start(), restartMs);
      restartMs = Math.min(restartMs * 2, RESTART_MS.most);
    },
  });

  async function start(): Promise<void> {
    try {
      await client.start({ eventDispatcher: dispatcher });
    } catch (error) {
      log.error({ error }, 'the long connection could not be started');
    }
  }

  return {
    start,
    close() {
      stopped.abort();
      clearTimeout(timer);
      client.close({ force: true });
    },
  };
}
