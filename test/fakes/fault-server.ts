// A composition root for fault tests: the real server with two counting tools, one idempotent and one not, and with
// named points at which the process kills or stops itself; and a tool that no attempt survives. What passes the points is written to a file outside.
//
// FAULT_POINT: one of POINTS; FAULT_ONCE: a file; the process is killed there only while the file does not exist (so a
// process that is started again lives).
// HOLD: if set, a run whose chat is called <one of HOLDS>-… waits there for ever, so that many can be killed in one process.
// COUNTER: a file that the tools append one line to for each execution.
// RECORD: a file that gets one line for each execution, start of a tool, journaled result, wait, commit, append and claim, with the epoch.
// CURED: a file; once it is there, the tool that no attempt survives is harmless.
// MUTANT: a promise that is broken on purpose, to show that it is noticed (see mutated()).
//
// Over the IPC channel, if there is one: { arm: { point, nth, action: 'kill' | 'stop' } }, answered { armed: point };
// { clockMs } shifts Date.now().
import { appendFileSync, existsSync, writeFileSync, writeSync } from 'node:fs';
import { serve } from '../../src/serve.ts';
import type { ConversationStore, Lease } from '../../src/ports/store.ts';
import type { LaneQueue } from '../../src/ports/lanes.ts';
import type { Outbox } from '../../src/ports/outbox.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { systemClock } from '../../src/system-clock.ts';
import { builtInTools } from '../../src/tools/index.ts';
import type { FaultOrder, FaultPoint, HOLDS } from './fault-points.ts';

const {
  FAULT_POINT = '',
  FAULT_ONCE = '',
  HOLD = '',
  COUNTER = '',
  RECORD = '',
  MUTANT = '',
  CURED = '',
} = process.env;

let armed: { point: FaultPoint; nth: number; action: 'kill' | 'stop' } | undefined;

function reach(point: FaultPoint): void {
  if (point === FAULT_POINT && !existsSync(FAULT_ONCE)) {
    writeFileSync(FAULT_ONCE, point);
    process.kill(process.pid, 'SIGKILL');
  }
  if (armed?.point !== point || --armed.nth > 0) return;
  const { action } = armed;
  armed = undefined;
  // Written at once: a stopped process writes no more.
  writeSync(1, `${JSON.stringify({ msg: 'fault point', point, action })}\n`);
  process.kill(process.pid, action === 'kill' ? 'SIGKILL' : 'SIGSTOP');
}

const realNow = Date.now;
let shiftMs = 0;
Date.now = () => realNow() + shiftMs;

process.on('message', (order: FaultOrder) => {
  if ('clockMs' in order) {
    shiftMs = order.clockMs;
    return;
  }
  armed = { ...order.arm };
  process.send?.({ armed: order.arm.point });
});
// The test that started it is gone.
process.on('disconnect', () => process.exit(1));

function record(what: string, fields: Record<string, unknown>): void {
  if (RECORD !== '')
    appendFileSync(RECORD, `${JSON.stringify({ what, pid: process.pid, at: realNow(), ...fields })}\n`);
}

/** The newest lease of this process, by conversation: which attempt a tool runs in. */
const leases = new Map<string, Lease>();

function countingTool(name: string, idempotent: boolean): Tool {
  return {
    name,
    description: 'Counts its executions outside of the server.',
    parameters: { type: 'object', properties: { tag: { type: 'string' } } },
    idempotent,
    async execute(args, { callId, conversation }) {
      reach('before_tool');
      if (COUNTER !== '') appendFileSync(COUNTER, `${JSON.stringify({ name, callId, tag: args['tag'] })}\n`);
      record('ran', {
        conversation,
        call: callId,
        tag: args['tag'],
        tool: name,
        epoch: leases.get(conversation)?.epoch,
      });
      reach('after_tool');
      return success(`${name} counted`);
    },
  };
}

/** What no attempt survives. */
const crashTool: Tool = {
  name: 'crash',
  description: 'Ends the process.',
  parameters: { type: 'object', properties: {} },
  idempotent: true,
  async execute() {
    if (!existsSync(CURED)) process.kill(process.pid, 'SIGKILL');
    return success('survived');
  },
};

const leaseFields = ({ conversation, run, epoch }: Lease) => ({ conversation, run, epoch });

/** Is this conversation to wait at this moment? */
const isHeld = (conversation: string, moment: (typeof HOLDS)[number]): boolean =>
  HOLD !== '' && conversation.split(':')[1]?.startsWith(`${moment}-`) === true;

function hold(lease: Lease): Promise<never> {
  record('held', leaseFields(lease));
  return new Promise(() => {});
}

function watchedStore(store: ConversationStore): ConversationStore {
  return {
    ...store,
    async append(message, options) {
      reach('before_append');
      const result = await store.append(message, options);
      record('appended', { conversation: message.conversation, id: message.id, ...result });
      reach('after_append');
      return result;
    },
    async claim(...args) {
      const result = await store.claim(...args);
      if (result.status === 'claimed') {
        leases.set(args[0], result.lease);
        const { inbox, attempt } = result.snapshot;
        record('claimed', { ...leaseFields(result.lease), attempt, messages: inbox.map(({ id }) => id) });
        reach('after_claim');
      }
      return result;
    },
    async renew(...args) {
      const result = await store.renew(...args);
      reach('after_renew');
      return result;
    },
    async drain(...args) {
      const result = await store.drain(...args);
      if (result && result.length > 0) reach('after_drain');
      return result;
    },
    async journal(lease, entries) {
      reach('before_journal');
      const has = (kind: string) => entries.some((entry) => entry.kind === kind);
      if (has('tool_result') && isHeld(lease.conversation, 'ran')) return hold(lease);
      const result = await store.journal(lease, entries);
      for (const entry of entries) {
        if (entry.kind === 'tool_start') record('starting', { ...leaseFields(lease), call: entry.call_id });
        if (entry.kind === 'tool_result' && result)
          record('journaled', { ...leaseFields(lease), call: entry.call_id });
      }
      if (has('tool_start')) reach('after_tool_start');
      if (has('tool_result')) reach('after_tool_journal');
      if (has('tool_start') && isHeld(lease.conversation, 'started')) return hold(lease);
      if (has('tool_result') && isHeld(lease.conversation, 'journaled')) return hold(lease);
      return result;
    },
    async commit(lease, merge) {
      reach('before_commit');
      const result = await store.commit(lease, merge);
      record('committed', { ...leaseFields(lease), merged: result !== false });
      reach('after_commit');
      return result;
    },
  };
}

function watchedOutbox(outbox: Outbox): Outbox {
  return {
    ...outbox,
    async claim(...args) {
      const result = await outbox.claim(...args);
      if (result.status === 'claimed') reach('after_delivery_claim');
      return result;
    },
    async settle(lease) {
      reach('before_settle');
      const result = await outbox.settle(lease);
      reach('after_settle');
      return result;
    },
    async retryLater(...args) {
      const result = await outbox.retryLater(...args);
      reach('after_retry_later');
      return result;
    },
  };
}

const watchedLanes = (lanes: LaneQueue, before: FaultPoint, after: FaultPoint): LaneQueue => ({
  ...lanes,
  async wake(conversation) {
    reach(before);
    await lanes.wake(conversation);
    reach(after);
  },
});

/** The same storage, with a look at what passes. */
const watched = (storage: Storage): Storage => ({
  ...storage,
  store: watchedStore(mutated(storage.store)),
  outbox: watchedOutbox(storage.outbox),
  lanes: watchedLanes(storage.lanes, 'before_wake', 'after_wake'),
  deliveries: watchedLanes(storage.deliveries, 'before_delivery_wake', 'after_delivery_wake'),
});

function mutated(store: ConversationStore): ConversationStore {
  switch (MUTANT) {
    case 'forgetful_journal':
      return { ...store, journal: () => Promise.resolve(true) };
    case 'early_acknowledgement':
      return {
        ...store,
        append(message) {
          setTimeout(() => void store.append(message).catch(() => undefined), 100);
          return Promise.resolve({ duplicate: false });
        },
      };
    default:
      return store;
  }
}

await serve({
  argv: process.argv.slice(2),
  tools: [
    ...builtInTools(systemClock),
    countingTool('count_once', false),
    countingTool('count_many', true),
    crashTool,
  ],
  wrapStorage: watched,
});
