// The child process of a WeChat account: wechaty and its puppet, apart from the server, whose crashes they can't be and whose
// handlers they can't touch. It ends when the server does, whatever way.
import { lineToServer } from '../../src/child/server.ts';
import type { FromChild, Handed, ToChild } from './ipc.ts';
import type { Bot } from './child/bot.ts';

/** What is being sent when the server stops gets so long to arrive. */
const GRACE_MS = 2_000;

const waiting = new Map<number, () => void>();
let serial = 0;
let bot: Bot | undefined;

const line = lineToServer((said) => {
  const message = said as ToChild;
  handle(message).catch(message.type === 'start' ? fail : report);
}, end);

function tell(message: FromChild, then?: () => void): void {
  // Once the server is gone, this process is ending as well.
  line.send(message, then);
}

const report = (error: unknown): void => tell({ type: 'trouble', reason: reasonOf(error) });

function handOver(message: Handed): Promise<void> {
  const own = ++serial;
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.set(own, resolve);
  tell({ type: 'message', serial: own, message });
  return promise;
}

async function handle(message: ToChild): Promise<void> {
  switch (message.type) {
    case 'start': {
      const { startBot } = await import('./child/bot.ts');
      bot = await startBot({ start: message, tell, handOver, report });
      return;
    }
    case 'send':
      if (bot) await bot.send(message);
      else tell({ type: 'outcome', serial: message.serial, outcome: 'logged_out', reason: 'it is starting' });
      return;
    case 'taken':
      waiting.get(message.serial)?.();
      waiting.delete(message.serial);
      return;
    case 'ping':
      tell({ type: 'pong' });
      return;
    case 'stop':
      // wechaty isn't stopped: with some puppets that means to log out, and the next start would need a new QR code.
      setTimeout(end, GRACE_MS);
      await bot?.idle();
      end();
  }
}

/** Everything that the puppet has started (browsers, helpers) is in this process's group, and ends with it. */
function end(): never {
  try {
    process.kill(-process.pid, 'SIGKILL');
  } catch {
    // Not the leader of a group: there is only this process.
  }
  process.exit(0);
}

/** The server learns why, then this process ends. */
function fail(error: unknown): void {
  const cause = causeOf(error);
  tell({ type: 'fatal', cause, reason: reasonOf(error) }, end);
  setTimeout(end, GRACE_MS);
}

function causeOf(error: unknown): Extract<FromChild, { type: 'fatal' }>['cause'] {
  const { name, code, message } = Object(error) as { name?: string; code?: string; message?: string };
  if (name === 'PuppetMissing') return 'puppet';
  const missing =
    code === 'ERR_MODULE_NOT_FOUND' && /package '(?:wechaty|wechaty-puppet|file-box)'/.test(message ?? '');
  return missing ? 'wechaty' : 'broken';
}

function reasonOf(error: unknown): string {
  const { message } = Object(error) as { message?: unknown };
  return String(message ?? error).slice(0, 500);
}

process.umask(0o077);
// Ctrl-C in a terminal, and what stops a whole group: the server says when it is time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('unhandledRejection', report);
process.on('uncaughtException', fail);
tell({ type: 'up' });
