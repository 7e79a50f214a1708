// One round: the plan's conversations run while its faults happen; when all is quiet, the checker looks at what is left.
import { setTimeout as sleep } from 'node:timers/promises';
import { conversationId } from '../../../src/domain/conversation.ts';
import { defaultReply } from '../../fakes/model/behaviour.ts';
import type { ScriptedReply, ScriptRequest } from '../../fakes/model/types.ts';
import { API_KEY } from '../../fakes/webhook-client.ts';
import { check, type CheckedConversation, type Violation } from './checker.ts';
import { createInjector } from './faults.ts';
import type { FaultKind, ModelFault, Plan, PlannedConversation, PlannedMessage } from './plan.ts';
import type { Recorded, Rig } from './rig.ts';

export interface RoundResult {
  seed: number;
  faults: FaultKind[];
  conversations: number;
  messages: number;
  posts: number;
  modelCalls: number;
  callbacks: number;
  /** Runs that were claimed more than once, and merges that were refused. */
  takeovers: number;
  refused: number;
  ms: number;
  violations: Violation[];
  /** Of the conversations with violations, and of the faults. */
  timeline: string[];
}

/** How long all messages may take to be accepted, faults included; and then everything to become quiet. */
const ACCEPT_WITHIN_MS = 40_000;
const QUIET_WITHIN_MS = 30_000;
/** After the last message was accepted. */
const FAULTS_GO_ON_MS = 4_000;

interface Event {
  at: number;
  chat?: string;
  what: string;
}

export async function runRound(rig: Rig, plan: Plan): Promise<RoundResult> {
  const startedAt = Date.now();
  const acceptUntil = startedAt + ACCEPT_WITHIN_MS;
  const events: Event[] = [];
  const violations: Violation[] = [];
  const note = (what: string, chat?: string) =>
    void events.push({ at: Date.now(), what, ...(chat === undefined ? {} : { chat }) });
  const injector = createInjector(rig, plan.faults, note);
  const byId = new Map(plan.conversations.flatMap(({ messages }) => messages.map((one) => [one.id, one])));
  let posts = 0;
  let modelCalls = 0;

  const { received } = rig.receiver;
  received.length = 0;
  const arrived = new Set<string>();
  let lookAgain: (() => void)[] = [];
  rig.receiver.behave(nextOf(byId, ({ callbacks }) => callbacks));
  rig.receiver.onReceived((callback) => {
    note(
      `callback ${callback.deliveryId} for ${callback.messages.join(' ')}: ${callback.answer}`,
      callback.conversation,
    );
    injector.count('called_back');
    if (callback.answer !== 'ok' && callback.answer !== 'slow') return;
    for (const id of callback.messages) arrived.add(id);
    for (const look of lookAgain.splice(0)) look();
  });

  const nextModelFault = nextOf(byId, ({ model }) => model);
  rig.model.setScript((request) => {
    modelCalls++;
    injector.count('asked');
    const id = newestId(request);
    const message = id === undefined ? undefined : byId.get(id);
    const fault = id === undefined ? undefined : nextModelFault({ messages: [id] });
    if (message) note(`model asked about ${id}${fault ? `: ${fault}` : ''}`, chatOf(message.id));
    return { ...replyOf(request, fault), delayMs: message?.thinkMs ?? 0 };
  });

  /** Again and again until it is accepted: what a platform does. False if that takes too long or it is refused. */
  async function post(conversation: PlannedConversation, message: PlannedMessage): Promise<boolean> {
    for (let attempt = 0; Date.now() < acceptUntil; attempt++) {
      const urls = rig.urls();
      const url = urls[(attempt + message.id.length + message.text.length) % Math.max(1, urls.length)];
      const status = url === undefined ? undefined : await postOnce(rig, url, conversation, message);
      posts++;
      if (status === 200 || status === 202) return true;
      if (status !== undefined) note(`post ${message.id}: ${status}`, conversation.id);
      if (typeof status === 'number' && status < 500 && status !== 429) {
        violations.push({
          rule: 'valid messages are taken',
          detail: `${message.id}: ${status}`,
          conversation: conversation.id,
        });
        return false;
      }
      await sleep(30);
    }
    violations.push({
      rule: 'messages are accepted in time',
      detail: message.id,
      conversation: conversation.id,
    });
    return false;
  }

  async function answered(id: string): Promise<void> {
    while (!arrived.has(id) && Date.now() < acceptUntil)
      await Promise.race([new Promise<void>((resolve) => lookAgain.push(resolve)), sleep(1_000)]);
  }

  async function converse(conversation: PlannedConversation): Promise<CheckedConversation> {
    const { id: chat, messages, pace } = conversation;
    const accepted: string[] = [];
    const send = async (message: PlannedMessage): Promise<void> => {
      if (!(await post(conversation, message))) return;
      note(`accepted ${message.id}`, chat);
      accepted.push(message.id);
      injector.count('accepted');
    };
    const again = async (index: number): Promise<void> => {
      for (const [n, message] of messages.entries())
        if (message.duplicateAfter !== undefined && n + message.duplicateAfter === index)
          await post(conversation, message);
    };
    if (pace === 'burst') {
      await Promise.all(messages.map(send));
      for (const n of messages.keys()) await again(n);
    } else {
      for (const [n, message] of messages.entries()) {
        await send(message);
        await again(n);
        if (pace === 'paced') await answered(message.id);
      }
    }
    return { id: conversationId('webhook', chat), chat, accepted, ordered: pace !== 'burst' };
  }

  const conversations = await Promise.all(plan.conversations.map(converse));
  const wanted = conversations.flatMap(({ accepted }) => accepted);
  // Faults go on while answers are missing, but not for good.
  const faultsUntil = Date.now() + FAULTS_GO_ON_MS;
  while (Date.now() < faultsUntil && !wanted.every((id) => arrived.has(id))) await sleep(20);
  await injector.healed();
  for (const process of rig.processes.values()) await process.up();

  const names = conversations.map(({ id }) => id);
  const until = Date.now() + QUIET_WITHIN_MS;
  let quiet = false;
  while (!quiet && Date.now() < until) {
    if (wanted.every((id) => arrived.has(id))) quiet = await rig.truth.quiet(names).catch(() => false);
    if (!quiet) await sleep(100);
  }
  if (!quiet) {
    const missing = wanted.filter((id) => !arrived.has(id));
    violations.push({ rule: 'all is quiet in time', detail: `not answered: ${missing.join(' ') || 'none'}` });
  }

  const lines = [...rig.processes.values()].flatMap((process) => process.takeLines());
  const { histories, leftovers } = await rig.truth.read(names);
  const record = await rig.takeRecord();
  const rejected = rig.model.requests.splice(0).flatMap((request) => request.rejected ?? []);
  violations.push(
    ...check({
      conversations,
      histories,
      callbacks: received,
      record,
      leftovers,
      lines,
      secrets: rig.secrets,
      rejected,
    }),
  );

  const claimed = record.filter(({ what }) => what === 'claimed');
  return {
    seed: plan.seed,
    faults: injector.fired,
    conversations: conversations.length,
    messages: wanted.length,
    posts,
    modelCalls,
    callbacks: received.length,
    takeovers: claimed.length - new Set(claimed.map(({ run }) => run)).size,
    refused: record.filter(({ what, merged }) => what === 'committed' && merged === false).length,
    ms: Date.now() - startedAt,
    violations,
    timeline: violations.length === 0 ? [] : timelineOf(startedAt, events, record, violations, lines),
  };
}

const chatOf = (messageId: string): string => messageId.slice(0, messageId.lastIndexOf('-'));

/** How to misbehave the next time that something is about these messages: the newest one's list, front first. */
function nextOf<T>(
  byId: ReadonlyMap<string, PlannedMessage>,
  listOf: (message: PlannedMessage) => readonly T[],
): (about: { messages: readonly string[] }) => T | undefined {
  const used = new Map<string, number>();
  return ({ messages }) => {
    const id = messages.at(-1) ?? '';
    const n = used.get(id) ?? 0;
    used.set(id, n + 1);
    const message = byId.get(id);
    return message && listOf(message)[n];
  };
}

/** Of the message that the newest user text names last. */
function newestId(request: ScriptRequest): string | undefined {
  const all = request.raw.match(/s\d+-c\d+-m\d+/g);
  return request.text.match(/s\d+-c\d+-m\d+/g)?.at(-1) ?? all?.at(-1);
}

function replyOf(request: ScriptRequest, fault: ModelFault | undefined): ScriptedReply {
  const reply = defaultReply(request);
  switch (fault) {
    case 'error':
      return { status: 500, error: 'overloaded' };
    case 'rate_limit':
      return { status: 429, error: 'slow down' };
    case 'stall':
      return { ...reply, stallAfter: 1 };
    case 'cut':
      return { ...reply, cutAfter: 1 };
    case 'garble':
      return { ...reply, garbleAfter: 1 };
    case 'early_end':
      return { ...reply, endAfter: 1 };
    case undefined:
      return reply;
  }
}

async function postOnce(
  rig: Rig,
  url: string,
  { id: conversation, group }: PlannedConversation,
  { id, text }: PlannedMessage,
): Promise<number | string> {
  try {
    const response = await fetch(`${url}/webhook/webhook`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'content-type': 'application/json',
        'idempotency-key': id,
      },
      body: JSON.stringify({
        conversation,
        text,
        callback_url: rig.receiver.urlOf(conversation),
        ...(group ? { group, mentioned: true, sender: { id: 'ann' } } : {}),
      }),
      signal: AbortSignal.timeout(2_500),
    });
    await response.arrayBuffer();
    return response.status;
  } catch (error) {
    return `no answer (${error instanceof Error ? error.name : ''})`;
  }
}

function timelineOf(
  startedAt: number,
  events: readonly Event[],
  record: readonly Recorded[],
  violations: readonly Violation[],
  lines: readonly string[],
): string[] {
  const concerned = new Set(violations.flatMap(({ conversation }) => conversation ?? []));
  const all: Event[] = [
    ...events,
    ...record.map(({ what, at, pid, conversation, ...rest }) => ({
      at,
      chat: conversation.slice(conversation.indexOf(':') + 1),
      what: `${what} by ${pid} ${JSON.stringify(rest)}`,
    })),
  ].sort((a, b) => a.at - b.at);
  const told = (chat: string) => [
    `--- ${chat}`,
    ...all
      .filter((event) => event.chat === chat || event.chat === undefined)
      .map(
        ({ at, what, chat: own }) =>
          `${String(at - startedAt).padStart(7)} ms  ${own === undefined ? '*** ' : ''}${what}`,
      ),
  ];
  const chats = [...concerned].map((id) => id.slice(id.indexOf(':') + 1));
  const warnings = lines.filter((line) =>
    /"level":"(warn|error|fatal)"|did not start|^\s*at |Error/.test(line),
  );
  return [
    ...(chats.length > 0 ? chats.slice(0, 5) : ['(faults)']).flatMap(told),
    '--- log',
    ...warnings.slice(-60),
  ];
}
