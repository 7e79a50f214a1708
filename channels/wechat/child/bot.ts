// wechaty with its puppet: events → what the server is told, and messages one after the other in each chat.
import { types } from 'wechaty-puppet';
import { WechatyImpl, type MessageInterface } from 'wechaty/impls';
import type { FromChild, Handed, Send, Start } from '../ipc.ts';
import { loadPuppet } from './puppet.ts';
import { readMessage } from './read.ts';
import { createSender } from './send.ts';

export interface BotOptions {
  start: Start;
  tell(message: FromChild): void;
  /** Resolves when the server has the message. */
  handOver(message: Handed): Promise<void>;
  report(error: unknown): void;
}

export interface Bot {
  send(request: Send): Promise<void>;
  /** Resolves when what was begun has been sent. */
  idle(): Promise<unknown>;
}

/** Messages that wait for the server; beyond it the newest are dropped, and it is told. */
const MAX_WAITING = 1_000;
const SCANS = new Map<number, Extract<FromChild, { type: 'scan' }>['state']>([
  [types.ScanStatus.Waiting, 'waiting'],
  [types.ScanStatus.Timeout, 'waiting'],
  [types.ScanStatus.Scanned, 'scanned'],
  [types.ScanStatus.Confirmed, 'confirmed'],
  [types.ScanStatus.Cancel, 'cancelled'],
]);

/** Rejects if the puppet can't be loaded or started. */
export async function startBot({ start, tell, handOver, report }: BotOptions): Promise<Bot> {
  const puppet = await loadPuppet(start.puppet, start.options);
  // Without a name nothing is kept; with one, the login is, in a file of that name.
  const bot = new WechatyImpl({ puppet, ...(start.memory === undefined ? {} : { name: start.memory }) });
  /** Ids of this account in this process: after a logout the puppet doesn't know its own words any more. */
  const own = new Set<string>();
  const lines = new Map<string, Promise<void>>();
  let waiting = 0;
  const self = () => (puppet.isLoggedIn ? puppet.currentUserId : undefined);
  const sender = createSender(bot, self);

  async function onLogin(id: string): Promise<void> {
    own.add(id);
    const contact = await bot.ContactSelf.find({ id });
    tell({ type: 'login', id, name: contact?.name() ?? '' });
  }

  async function take(message: MessageInterface): Promise<void> {
    const us = self();
    if (us === undefined || own.has(message.talker().id) || message.self()) return;
    if (message.type() === types.Message.Recalled) {
      tell({ type: 'recalled', id: message.text() });
      return;
    }
    const { maxFileBytes, groupFiles } = start;
    const read = await readMessage(message, { puppet, self: us, maxFileBytes, groupFiles, report });
    if (read) await handOver(read);
  }

  function enqueue(message: MessageInterface): Promise<void> {
    if (waiting >= MAX_WAITING) throw new Error('too many messages wait for the server; one was dropped');
    waiting += 1;
    const chat = (message.room() ?? message.talker()).id;
    const line = (lines.get(chat) ?? Promise.resolve())
      .then(() => take(message))
      .catch(report)
      .finally(() => {
        waiting -= 1;
        if (lines.get(chat) === line) lines.delete(chat);
      });
    lines.set(chat, line);
    return line;
  }

  // wechaty ends the process when nobody listens, or when a listener's promise rejects.
  bot.on('error', report);
  bot.on('message', (message) => void handle(() => enqueue(message)));
  // The puppet's own events: wechaty's wait for contacts, and are lost when those can't be had.
  puppet.on('login', ({ contactId }) => void handle(() => onLogin(contactId)));
  puppet.on('logout', ({ data }) => tell({ type: 'logout', reason: (data ?? '').slice(0, 200) }));
  puppet.on('heartbeat', () => tell({ type: 'heartbeat' }));
  puppet.on('scan', ({ status, qrcode }) => {
    const state = SCANS.get(status);
    if (state) tell({ type: 'scan', state, ...(state === 'waiting' && qrcode ? { qr: qrcode } : {}) });
  });

  async function handle(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      report(error);
    }
  }

  let failure: unknown;
  const keep = (error: unknown): void => void (failure ??= error);
  bot.once('error', keep);
  await bot.start();
  bot.off('error', keep);
  // wechaty tells a puppet that can't be started as an error among others.
  if (!puppet.state.active() && failure !== undefined) throw failure;

  return {
    async send(request) {
      tell({ type: 'outcome', serial: request.serial, ...(await sender.send(request)) });
    },
    idle: sender.idle,
  };
}
