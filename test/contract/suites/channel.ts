// The contract of a Channel, on the real accept() and a real storage: what test/contract/channels.test.ts runs for each of them.
// A harness (test/contract/channels/<type>.ts) brings the adapter, and a fake that speaks the platform's own protocol to it.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { conversationId } from '../../../src/domain/conversation.ts';
import type { Delivery } from '../../../src/domain/delivery.ts';
import { AppError } from '../../../src/domain/errors.ts';
import type { InboundMessage } from '../../../src/domain/inbound.ts';
import { createChannelMemory } from '../../../src/delivery/memory.ts';
import type { Accept, Accepted, Channel, ChannelMemory, ChannelStatus } from '../../../src/ports/channel.ts';
import type { Logger } from '../../../src/ports/log.ts';
import type { MediaStore } from '../../../src/ports/media.ts';
import type { Storage } from '../../../src/ports/storage.ts';
import { createSqliteStorage } from '../../../src/storage/sqlite/index.ts';
import { acceptOn } from '../../fakes/accept.ts';
import { recordingLog, silentLog } from '../../fakes/log.ts';
import { createTestMedia } from '../../fakes/media.ts';

/** The account's name in every harness. */
export const ACCOUNT = 'acc';

/** What the suite gives to a harness. */
export interface ChannelParts {
  accept: Accept;
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: ChannelMemory;
  storage: Storage;
  media: MediaStore;
  log: Logger;
  /** A folder of the test's own. */
  folder: string;
}

export interface Said {
  /** The test's name for the message. Said again, it is the same message, delivered once more. */
  id: string;
  /** One of the harness's ids. */
  chat: string;
  sender: string;
  text: string;
  group?: boolean;
  /** In a group: the bot is addressed. Direct messages always do. */
  mentioned?: boolean;
}

/** Something that the platform was told to show. */
export interface Sent {
  chat: string;
  text: string;
  /** What the platform, or whoever receives it, tells a resend by; absent: this platform has no such thing. */
  key?: string;
}

/** One channel, not started, and its platform. Made anew for every test. */
export interface ChannelRig {
  channel: Channel;
  /** As this platform writes them. `direct` is Ada's chat with the bot; no `group`: there are none. */
  ids: { ada: string; bob: string; direct: string; group?: string };
  /** After start(): resolves when messages can come in. */
  connected(): Promise<void>;
  /**
   * The platform hands a message over. Resolves with its id there, what it is answered at once where no message is sent for
   * that, and whether the platform may forget it now; not
   * acknowledged, it comes again: by itself, or when it is said again. Where the platform knows no acknowledgement, the
   * adapter itself has to keep the message until it could be taken.
   */
  say(message: Said): Promise<{ id: string; acknowledged: boolean; reply?: string }>;
  /** The bot's own message comes back from the platform. Absent: it never does. */
  echo?(message: Said): Promise<void>;
  /** What comes in and is no message. Each resolves when the channel has seen it. Empty: nothing but messages can come. */
  garbage: (() => Promise<unknown>)[];
  /** Everything that was sent, resends included, oldest first. Absent: answers are read by other ways than delivery. */
  sent?(): Sent[];
  /** The platform can't be reached any more. */
  away(): Promise<void>;
  /** Connections that the platform has with the channel now, those that wait for reuse left out. */
  connections(): number;
  /** Ends the fake. */
  close(): Promise<void>;
}

export type MakeRig = (parts: ChannelParts) => Promise<ChannelRig>;

const never = new AbortController().signal;

export function describeChannel(name: string, makeRig: MakeRig): void {
  describe(`${name} channel`, () => {
    let folder = '';
    let storage: Storage;
    let media: MediaStore;
    const atEnd: (() => Promise<unknown>)[] = [];
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'lanekeeper-channel-'));
      storage = await createSqliteStorage({
        file: join(folder, 'test.db'),
        dedupeHours: 48,
        historyTtlDays: 0,
        log: silentLog,
      });
      media = await createTestMedia((cleanup) => void atEnd.push(cleanup));
    });
    afterAll(async () => {
      for (const cleanup of atEnd) await cleanup();
      await storage.close();
      await rm(folder, { recursive: true, force: true });
    });

    const cleanups: (() => Promise<unknown>)[] = [];
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown): void => void unhandled.push(error);
    beforeAll(() => void process.on('unhandledRejection', onUnhandled).on('uncaughtException', onUnhandled));
    afterAll(() => void process.off('unhandledRejection', onUnhandled).off('uncaughtException', onUnhandled));
    afterEach(async () => {
      for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      expect(unhandled.splice(0)).toEqual([]);
    });

    /** Every test has messages of its own in the shared storage. */
    let serial = 0;

    async function setUp() {
      const { log, lines } = recordingLog();
      const appended: InboundMessage[] = [];
      let before: (message: InboundMessage) => Promise<void> = async () => {};
      let broken: (() => Promise<Accepted>) | undefined;
      const ours: string[] = [];
      const store: Storage['store'] = {
        ...storage.store,
        async append(message) {
          await before(message);
          const result = await storage.store.append(message);
          if (!result.duplicate) appended.push(message);
          return result;
        },
      };
      const { accept } = acceptOn(storage, { storage: { store }, ours });
      const rig = await makeRig({
        accept: async (account, message) => (broken ? broken() : accept(account, message)),
        cancel: async () => false,
        memory: createChannelMemory(storage.index, ACCOUNT),
        storage: { ...storage, store },
        media,
        log,
        folder,
      });
      const { channel } = rig;
      let closed = false;
      const close = async (): Promise<void> => {
        if (closed) return;
        closed = true;
        await channel.stop();
        await rig.close();
      };
      cleanups.push(close);
      const prefix = `m${++serial}`;
      const direct = (text: string, id = `${prefix}-direct`): Said => ({
        id,
        chat: rig.ids.direct,
        sender: rig.ids.ada,
        text,
      });
      return {
        ...rig,
        appended,
        lines,
        close,
        direct,
        group: (text: string, more: Partial<Said> = {}): Said => ({
          id: `${prefix}-group`,
          chat: rig.ids.group ?? '',
          sender: rig.ids.ada,
          text,
          group: true,
          mentioned: true,
          ...more,
        }),
        beforeAppend: (next: typeof before) => (before = next),
        /** accept() itself fails, in a way that nobody thought of. */
        breakAccept: (next: typeof broken) => (broken = next),
        async connect() {
          await channel.start();
          await rig.connected();
          ours.push(...(channel.botIds?.() ?? []));
        },
      };
    }

    it('brings a message as it was said, and its answer back where it came from', async () => {
      const { appended, channel, connect, direct, group, ids, say, sent } = await setUp();
      await connect();
      const questions = [
        direct('hello 你好 😀, a & b <c>'),
        ...(ids.group === undefined ? [] : [group('is anybody there?')]),
      ];
      for (const question of questions) {
        const { id, acknowledged } = await say(question);
        expect(acknowledged).toBe(true);
        const message = appended.at(-1);
        expect(message).toMatchObject({
          id,
          account: ACCOUNT,
          sender: { id: question.sender },
          text: question.text,
        });
        expect(message?.conversation.startsWith(conversationId(ACCOUNT, question.chat))).toBe(true);
        expect(message?.group ?? false).toBe(question.group ?? false);
        if (!sent) continue;
        expect(await channel.deliver(answerTo(message, `answer to ${question.id}`), never)).toEqual({
          status: 'sent',
        });
        expect(sent().at(-1)?.chat).toBe(question.chat);
        expect(sent().at(-1)?.text).toContain(`answer to ${question.id}`);
      }
      expect(appended).toHaveLength(questions.length);
    });

    it('tells the people of a group apart, and what is not for the bot', async (context) => {
      const { appended, connect, group, ids, say } = await setUp();
      if (ids.group === undefined) return context.skip('there are no groups');
      await connect();
      await say(group('from Ada', { id: `g${serial}-1` }));
      await say(group('from Bob', { id: `g${serial}-2`, sender: ids.bob }));
      const aside = await say(group('between us', { id: `g${serial}-3`, mentioned: false }));
      expect(aside.acknowledged).toBe(true);
      expect(appended.map(({ sender, text }) => [sender.id, text])).toEqual([
        [ids.ada, 'from Ada'],
        [ids.bob, 'from Bob'],
      ]);
    });

    it('answers a command at once, and once', async () => {
      const { appended, connect, direct, say, sent } = await setUp();
      await connect();
      const { acknowledged, reply } = await say(direct('/help'));
      expect(acknowledged).toBe(true);
      if (reply === undefined) await vi.waitFor(() => expect(sent?.().at(-1)?.text).toContain('/new'));
      else expect(reply).toContain('/new');
      const answers = sent?.().length;
      expect((await say(direct('/help'))).acknowledged).toBe(true);
      const keys = sent?.().map(({ key }) => key);
      if (sent && sent().length > (answers ?? 0)) expect(new Set(keys).size).toBe(1);
      expect(appended).toEqual([]);
    });

    it('skips what the bot itself has said', async (context) => {
      const { appended, connect, direct, echo, say } = await setUp();
      if (!echo) return context.skip('the platform never shows the bot its own messages');
      await connect();
      await echo(direct('my own words', `e${serial}`));
      await say(direct('somebody else’s'));
      expect(appended.map(({ text }) => text)).toEqual(['somebody else’s']);
    });

    it('acknowledges only after the append', async () => {
      const { beforeAppend, connect, direct, say } = await setUp();
      await connect();
      const reached = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      beforeAppend(() => {
        reached.resolve();
        return gate.promise;
      });
      let acknowledged: boolean | undefined;
      const said = say(direct('hello')).then((result) => (acknowledged = result.acknowledged));
      await reached.promise;
      await turns(20);
      expect(acknowledged).toBeUndefined();
      gate.resolve();
      expect(await said).toBe(true);
    });

    it('does not acknowledge what could not be made durable; it is taken when it comes again', async () => {
      const { appended, beforeAppend, connect, direct, say } = await setUp();
      await connect();
      beforeAppend(() => Promise.reject(new AppError('storage_unavailable', 'The storage is away.')));
      expect((await say(direct('hello'))).acknowledged).toBe(false);
      expect(appended).toEqual([]);
      beforeAppend(async () => {});
      expect((await say(direct('hello'))).acknowledged).toBe(true);
      expect(appended).toHaveLength(1);
    });

    it('outlives an error in its handler', async () => {
      const { appended, breakAccept, connect, direct, say } = await setUp();
      await connect();
      breakAccept(() => Promise.reject(new TypeError('cannot read properties of undefined')));
      expect((await say(direct('hello'))).acknowledged).toBe(false);
      breakAccept(() => {
        throw new RangeError('thrown at once');
      });
      expect((await say(direct('hello'))).acknowledged).toBe(false);
      breakAccept(undefined);
      expect((await say(direct('hello'))).acknowledged).toBe(true);
      expect(appended).toHaveLength(1);
    });

    it('outlives garbage', async (context) => {
      const { appended, connect, direct, garbage, say } = await setUp();
      if (garbage.length === 0) return context.skip('nothing but messages can come');
      await connect();
      for (const send of garbage) await send();
      expect(appended).toEqual([]);
      expect((await say(direct('still there?'))).acknowledged).toBe(true);
      expect(appended).toHaveLength(1);
    });

    it('takes a message once, however often it comes', async () => {
      const { appended, connect, direct, say } = await setUp();
      await connect();
      const said = await Promise.all([say(direct('hello')), say(direct('hello'))]);
      said.push(await say(direct('hello')));
      expect(said.every(({ acknowledged }) => acknowledged)).toBe(true);
      expect(appended).toHaveLength(1);
    });

    it('sends the same delivery again under the same id, or not at all', async (context) => {
      const { appended, channel, connect, direct, say, sent } = await setUp();
      if (!sent) return context.skip('its answers are not delivered');
      await connect();
      await say(direct('hello'));
      const answer = answerTo(appended[0], 'the answer');
      expect(await channel.deliver(answer, never)).toEqual({ status: 'sent' });
      expect(await channel.deliver(structuredClone(answer), never)).toEqual({ status: 'sent' });
      const keys = sent().map(({ key }) => key);
      // Where the platform tells no resend, the channel remembers what it has sent.
      if (keys[0] === undefined) expect(keys).toHaveLength(1);
      else expect(keys.length).toBeGreaterThan(1);
      expect(new Set(keys).size).toBe(1);
    });

    it('deliver() never throws', async () => {
      const { appended, away, channel, close, connect, direct, say } = await setUp();
      const settled: unknown[] = [];
      const deliver = async (delivery: Delivery, signal = never) =>
        settled.push((await channel.deliver(delivery, signal)).status);
      const unknown = answerTo(undefined, 'hello');
      // Deliveries of before the restart are waiting when a channel is made.
      await deliver(unknown);
      await connect();
      await say(direct('hello'));
      const good = answerTo(appended[0], 'hello');
      const odd: unknown[] = [undefined, null, 7, '', [], {}, { id: {} }];
      for (const value of odd) {
        const address = Object.fromEntries(Object.keys(good.address).map((key) => [key, value]));
        await deliver({ ...good, address });
      }
      await deliver({ ...good, reply: { text: '' } });
      await deliver({ ...good, messages: [] });
      await deliver(good, AbortSignal.abort());
      await away();
      await deliver(good, AbortSignal.timeout(500));
      await channel.stop();
      await deliver(good, AbortSignal.timeout(500));
      for (const status of settled) expect(['sent', 'retry', 'wait', 'park', 'drop']).toContain(status);
      await close();
    });

    it('says how it is: stopped, then connected, then stopped', async () => {
      const { channel, connect } = await setUp();
      expect(channel.status().state).toBe('stopped');
      await connect();
      await vi.waitFor(() => expect(channel.status().state).toBe('connected'));
      await channel.stop();
      expect(channel.status()).toEqual({ state: 'stopped' } satisfies ChannelStatus);
    });

    it('is started and stopped any number of times to one effect', async () => {
      const { channel, connect, connections } = await setUp();
      await connect();
      const once = connections();
      await Promise.all([channel.start(), channel.start()]);
      await turns(20);
      expect(connections()).toBe(once);
      await Promise.all([channel.stop(), channel.stop()]);
      await channel.stop();
      expect(channel.status().state).toBe('stopped');
      await quiet(() => connections() === 0, 'connections are left');
    });

    it('is stopped before it was started, and while it starts', async () => {
      const idle = await setUp();
      await idle.channel.stop();
      expect(idle.channel.status().state).toBe('stopped');
      const starting = await setUp();
      const started = starting.channel.start().catch(() => undefined);
      await starting.channel.stop();
      await started;
      expect(starting.channel.status().state).toBe('stopped');
      await quiet(() => starting.connections() === 0, 'connections are left');
    });

    it('leaves no timer, socket or child behind', async () => {
      // Timers of the test runner itself come and go.
      await quiet(
        () => alive().length === 0,
        () => `before: ${alive().join(', ')}`,
      );
      const { appended, beforeAppend, channel, close, connect, connections, direct, say } = await setUp();
      await connect();
      await say(direct('hello'));
      await channel.deliver(answerTo(appended[0], 'hi'), never);
      beforeAppend(() => Promise.reject(new AppError('storage_unavailable', 'The storage is away.')));
      await say(direct('lost', `l${serial}`));
      await channel.stop();
      await quiet(() => connections() === 0, 'connections are left');
      await close();
      await quiet(
        () => alive().length === 0,
        () => `left: ${alive().join(', ')}`,
      );
    });
  });
}

function answerTo(message: InboundMessage | undefined, text: string): Delivery {
  const { id = 'unknown', conversation = conversationId(ACCOUNT, 'unknown'), replyTo } = message ?? {};
  const run = `run-${conversation}-${id}`.slice(0, 40);
  return {
    id: `${run}.0`,
    conversation,
    account: ACCOUNT,
    run,
    messages: [id],
    address: replyTo?.address ?? {},
    status: 'done',
    reply: { text },
    at: Date.now(),
  };
}

/** What keeps this process from ending, but for the test runner's pipes and what the wait itself needs. */
const alive = (): string[] =>
  process.getActiveResourcesInfo().filter((kind) => kind !== 'Immediate' && kind !== 'PipeWrap');

/** Turns of the event loop: without a timer, which would be counted. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => void setImmediate(resolve));
}

const PATIENCE_MS = 5_000;

async function quiet(holds: () => boolean, what: string | (() => string)): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  await turns(2);
  while (!holds()) {
    if (performance.now() > until) throw new Error(typeof what === 'string' ? what : what());
    await turns(1);
  }
}
