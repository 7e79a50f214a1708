// What people see of a run at work: the Typing reaction on their message, and the answer growing in a card. Every message about a
// run carries the delivery's id as its uuid, of which the platform shows one only: card and plain answer can't both appear,
// whichever process sends them. Streaming: https://open.feishu.cn/document/cardkit-v1/streaming-updates-openapi-overview
import { z } from 'zod';
import type { FeishuSettings } from '../../config/schema.ts';
import type { ChannelMemory, LiveRun, LiveView } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import { FeishuError } from './client/codes.ts';
import type { FeishuApi, Target } from './client/api.ts';
import { cardJson, cardText, ELEMENT, fitsCard, partsOf } from './render.ts';

/** How a draft is updated: a streaming card, or a card that is a message and is replaced each time. */
const draftSchema = z.union([z.object({ card: z.string() }), z.object({ patch: z.literal(true) })]);
type Draft = z.infer<typeof draftSchema>;

interface Entry {
  draft?: Draft;
  /** The message that shows it, once sent. */
  message?: string;
  /** No more updates: its answer is being delivered, or drafts don't work here. */
  closed: boolean;
  /** The update under way. */
  busy: Promise<void>;
  sequence: number;
  nextAt: number;
}

export interface LiveOptions {
  api: FeishuApi;
  memory: ChannelMemory;
  settings: Pick<FeishuSettings, 'typing' | 'streaming'>;
  targetOf: (address: Record<string, unknown>) => Target;
  cancel: (conversation: string, message: string) => Promise<boolean>;
  log: Logger;
  now: () => number;
}

export interface Live {
  view: LiveView;
  /**
   * Makes the draft of a delivery, if there is one, its first part: 'shown'. 'none': send it. 'retracted': send it, with
   * another uuid, since the draft's message had to be taken back. Rejects with FeishuError.
   */
  settle(delivery: string, target: Target, firstPart: string): Promise<'shown' | 'none' | 'retracted'>;
  /** Takes the bot's reaction away that a process before this one left. */
  untype(message: string): Promise<void>;
}

const TYPING = 'Typing';
const CARD_MS = 150;
const PATCH_MS = 1_500;
const MAX_ENTRIES = 2_000;
/** Sequence numbers are tenths of a second, so that they rise across processes. A final text outruns what is under way. */
const LEAD = 6_000;
const MAX_SEQUENCE = 2 ** 31;

export function createLive({ api, memory, settings, targetOf, cancel, log, now }: LiveOptions): Live {
  const entries = new Map<string, Entry>();
  const typing = new Map<string, string>();

  function entryOf(delivery: string): Entry {
    let entry = entries.get(delivery);
    if (!entry) {
      if (entries.size >= MAX_ENTRIES) entries.delete(entries.keys().next().value ?? '');
      entry = { closed: false, busy: Promise.resolve(), sequence: 0, nextAt: 0 };
      entries.set(delivery, entry);
    }
    return entry;
  }

  function sequence(entry: Entry, lead = 0): number {
    entry.sequence = Math.max(
      entry.sequence + 1,
      (Math.floor(now() / 100) % (MAX_SEQUENCE - 2 * LEAD)) + lead,
    );
    return entry.sequence;
  }

  async function recalled(delivery: string): Promise<Draft | undefined> {
    const text = await memory.find(`draft:${delivery}`);
    return text === undefined ? undefined : draftSchema.parse(JSON.parse(text));
  }

  /** Decided once for each run, before anything is sent, so that the next process goes on with the same. */
  async function open(entry: Entry, delivery: string, text: string): Promise<Draft> {
    const found = entry.draft ?? (await recalled(delivery));
    if (found) return (entry.draft = found);
    let draft: Draft;
    try {
      draft = { card: await api.createCard(cardJson(text, true)) };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      log.info(
        { error },
        'no streaming cards (is the scope cardkit:card:write granted?); messages are updated instead',
      );
      draft = { patch: true };
    }
    await memory.remember(`draft:${delivery}`, JSON.stringify(draft));
    // Another process may have been first.
    return (entry.draft = (await recalled(delivery)) ?? draft);
  }

  async function send(
    entry: Entry,
    draft: Draft,
    delivery: string,
    target: Target,
    text: string,
  ): Promise<string> {
    const known = entry.message ?? (await memory.find(`draft-message:${delivery}`));
    if (known !== undefined) return (entry.message = known);
    const json =
      'card' in draft
        ? JSON.stringify({ type: 'card', data: { card_id: draft.card } })
        : cardJson(text, false);
    const { id } = await api.send(target, { type: 'interactive', json }, delivery);
    entry.message = id;
    await memory.remember(`draft-message:${delivery}`, id);
    return id;
  }

  async function show(entry: Entry, run: LiveRun, text: string): Promise<void> {
    const draft = await open(entry, run.delivery, text);
    const fresh = entry.message === undefined;
    const message = await send(entry, draft, run.delivery, targetOf(run.address), text);
    if ('card' in draft) await api.writeCard(draft.card, ELEMENT, cardText(text), sequence(entry));
    else if (!fresh) await api.patch(message, cardJson(text, false));
    if (!('card' in draft)) entry.nextAt = now() + PATCH_MS;
  }

  async function finish(entry: Entry, draft: Draft, message: string, text: string): Promise<void> {
    if ('card' in draft) {
      try {
        await api.writeCard(draft.card, ELEMENT, cardText(text), sequence(entry, LEAD));
        await api.closeCard(draft.card, sequence(entry, LEAD));
        return;
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
      try {
        // It streams no more: an attempt before this one closed it, or it was open for too long.
        return await api.replaceCard(draft.card, cardJson(text, false), sequence(entry, LEAD));
      } catch (error) {
        if (!isRefusal(error)) throw error;
        log.info({ error }, 'a streaming card could not be finished; its message is replaced');
      }
    }
    await api.patch(message, cardJson(text, false));
  }

  /** Again at each attempt: only what is known to be gone may be followed by another message. */
  async function takeBack(message: string): Promise<'retracted'> {
    try {
      await api.recall(message);
    } catch (error) {
      if (!(error instanceof FeishuError) || error.kind !== 'gone') throw error;
    }
    return 'retracted';
  }

  const view: LiveView = {
    intervalMs: CARD_MS,
    async started(run) {
      const newest = run.messages.at(-1) ?? '';
      if ((await memory.find(`recalled:${newest}`)) !== undefined) {
        await cancel(run.conversation, newest);
        return;
      }
      if (settings.typing) typing.set(newest, await api.react(newest, TYPING));
    },
    async update(run, { text, tool }) {
      if (!settings.streaming) return;
      const entry = entryOf(run.delivery);
      if (entry.closed || now() < entry.nextAt) return;
      const shown = [partsOf(text)[0], tool === undefined ? undefined : `*${tool} …*`]
        .filter(Boolean)
        .join('\n\n');
      if (shown === '' || !fitsCard(shown)) return;
      const work = show(entry, run, shown);
      entry.busy = work.catch(() => undefined);
      try {
        await work;
      } catch (error) {
        if (error instanceof FeishuError && (error.kind === 'stale' || error.kind === 'closed')) return;
        if (isRefusal(error)) entry.closed = true;
        else
          entry.nextAt = now() + (error instanceof FeishuError ? (error.retryAfterMs ?? PATCH_MS) : PATCH_MS);
        throw error;
      }
    },
    async ended(run) {
      const newest = run.messages.at(-1) ?? '';
      const reaction = typing.get(newest);
      typing.delete(newest);
      if (reaction !== undefined) await api.unreact(newest, reaction);
    },
  };

  return {
    view,
    async settle(delivery, target, firstPart) {
      const entry = entryOf(delivery);
      entry.closed = true;
      await entry.busy;
      const draft = entry.draft ?? (await recalled(delivery));
      if (!draft) return 'none';
      const retracted = await memory.find(`draft-retracted:${delivery}`);
      if (retracted !== undefined) return takeBack(retracted);
      let message: string;
      try {
        message = await send(entry, draft, delivery, target, firstPart);
      } catch (error) {
        // Refused for good, so that nothing is to be seen of it: the plain answer takes its place, with the same uuid.
        if (isRefusal(error)) return 'none';
        throw error;
      }
      try {
        await finish(entry, draft, message, firstPart);
        return 'shown';
      } catch (error) {
        if (!isRefusal(error)) throw error;
        log.warn(
          { error, delivery },
          'a streamed reply could not be finished; it is taken back and sent again',
        );
        await memory.remember(`draft-retracted:${delivery}`, message);
        return takeBack(message);
      }
    },
    async untype(message) {
      if (!settings.typing || typing.has(message)) return;
      for (const reaction of await api.reactions(message, TYPING)) await api.unreact(message, reaction);
    },
  };
}

/** Trying again will not help, and it isn't that the message is gone. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof FeishuError)) return true;
  return !['busy', 'rate_limit', 'token', 'credentials', 'gone'].includes(error.kind ?? '');
}
