// The protocol of lease, journal, merge and outbox in small: two workers, two messages of one conversation, a crash of a
// worker anywhere, a lease that runs out anywhere (a worker that is stopped simply takes no step meanwhile). Each step is
// one atomic operation of the storage, or one effect outside of it. What wakes a worker is left out: it may look at any time.
import type { Protocol } from './explore.ts';

interface Running {
  at: 'claimed' | 'tool' | 'ran' | 'answered';
  run: number;
  epoch: number;
  /** Its copy of the messages that it answers. */
  messages: number[];
}

interface Sending {
  at: 'sending' | 'sent';
  delivery: number;
  epoch: number;
}

type Worker = 'idle' | Running | Sending;

export interface State {
  /** Messages that were not sent to the server yet are higher than this. */
  appended: number;
  inbox: number[];
  /** Fencing epoch; `lease` none: nobody may write; over: it ran out, and nobody has taken over. */
  epoch: number;
  lease: 'none' | 'live' | 'over';
  run: number | null;
  runs: number;
  taken: number;
  journal: ('start' | 'result')[];
  history: number[];
  /** Numbered by their runs: a delivery's id comes from its run. */
  outbox: { delivery: number; messages: number[] }[];
  sendEpoch: number;
  sendLease: 'none' | 'live' | 'over';
  workers: [Worker, Worker];
  /** Effects outside: deliveries that arrived (with what they answer), and runs whose tool ran, each time. */
  arrived: { delivery: number; messages: number[] }[];
  toolRuns: number[];
  /** Left over. */
  crashes: number;
  expiries: number;
}

/** A check that is left out, to see what it is for. */
export type Omission =
  | 'commit checks the epoch'
  | 'settle checks the epoch'
  | 'the start of a tool is journaled';

const MESSAGES = 2;

export function laneProtocol(omitted?: Omission): Protocol<State> {
  const initial: State = {
    appended: 0,
    inbox: [],
    epoch: 0,
    lease: 'none',
    run: null,
    runs: 0,
    taken: 0,
    journal: [],
    history: [],
    outbox: [],
    sendEpoch: 0,
    sendLease: 'none',
    workers: ['idle', 'idle'],
    arrived: [],
    toolRuns: [],
    crashes: 2,
    expiries: 2,
  };
  return {
    initial,
    steps: (state) => [...outside(state), ...[0, 1].flatMap((n) => stepsOf(state, n, omitted))],
    broken,
    done: ({ appended, inbox, outbox, run }) =>
      appended === MESSAGES && inbox.length === 0 && outbox.length === 0 && run === null,
  };
}

type Step = { name: string; to: State };

function outside(state: State): Step[] {
  const steps: Step[] = [];
  const { appended, inbox, expiries, lease, sendLease } = state;
  if (appended < MESSAGES) {
    const id = appended + 1;
    steps.push({ name: `append ${id}`, to: { ...state, appended: id, inbox: [...inbox, id] } });
  }
  if (expiries > 0 && lease === 'live')
    steps.push({ name: 'lease runs out', to: { ...state, lease: 'over', expiries: expiries - 1 } });
  if (expiries > 0 && sendLease === 'live')
    steps.push({ name: 'send lease runs out', to: { ...state, sendLease: 'over', expiries: expiries - 1 } });
  return steps;
}

function stepsOf(state: State, n: number, omitted: Omission | undefined): Step[] {
  const worker = state.workers[n]!;
  const name = n === 0 ? 'A' : 'B';
  /** The worker's next place, and what changes with it. */
  const go = (label: string, next: Worker, change: Partial<State> = {}): Step => {
    const workers: State['workers'] = n === 0 ? [next, state.workers[1]] : [state.workers[0], next];
    return { name: `${name} ${label}`, to: { ...state, ...change, workers } };
  };
  if (worker === 'idle')
    return [claim(state, go), claimDelivery(state, go)].filter((step) => step !== undefined);
  const crash =
    state.crashes > 0
      ? [
          // What held the lease is gone: it runs out by itself, and that needs no luck.
          go('crashes', 'idle', { crashes: state.crashes - 1, ...leasesAfter(state, worker) }),
        ]
      : [];
  return [
    ...crash,
    'delivery' in worker ? send(state, worker, go, omitted) : work(state, worker, go, omitted),
  ];
}

type Go = (label: string, next: Worker, change?: Partial<State>) => Step;

const leasesAfter = (state: State, worker: Running | Sending): Partial<State> => {
  if ('delivery' in worker)
    return worker.epoch === state.sendEpoch && state.sendLease === 'live' ? { sendLease: 'over' } : {};
  return worker.epoch === state.epoch && state.lease === 'live' ? { lease: 'over' } : {};
};

function claim(state: State, go: Go): Step | undefined {
  if (state.lease === 'live' || state.inbox.length === 0) return undefined;
  const epoch = state.epoch + 1;
  const resumed = state.run !== null;
  const run = state.run ?? state.runs + 1;
  // A new run takes what waits; a resumed one what it had, and more if it has done nothing yet.
  const taken = resumed && state.journal.length > 0 ? state.taken : state.inbox.length;
  const messages = state.inbox.slice(0, taken);
  return go(
    `claims run ${run}`,
    { at: 'claimed', run, epoch, messages },
    { epoch, lease: 'live', run, runs: Math.max(state.runs, run), taken },
  );
}

/** One step of a run: journal the start of its tool, run it, journal its result, commit. */
function work(state: State, worker: Running, go: Go, omitted: Omission | undefined): Step {
  const { run, epoch, messages } = worker;
  const fresh = epoch === state.epoch && state.lease !== 'none';
  const lost = go('finds its lease lost', 'idle');
  switch (worker.at) {
    case 'claimed': {
      if (!fresh) return lost;
      // A call that may have taken effect is not made again; one whose result is known neither.
      if (state.journal.includes('start'))
        return go('does not repeat the tool', { ...worker, at: 'answered' });
      const journal: State['journal'] = omitted === 'the start of a tool is journaled' ? [] : ['start'];
      return go('journals that the tool starts', { ...worker, at: 'tool' }, { journal });
    }
    case 'tool':
      return go(
        'runs the tool',
        { ...worker, at: 'ran' },
        { toolRuns: [...state.toolRuns, run].sort((a, b) => a - b) },
      );
    case 'ran':
      if (!fresh) return lost;
      return go('journals the result', { ...worker, at: 'answered' }, { journal: ['start', 'result'] });
    case 'answered': {
      if (!fresh && omitted !== 'commit checks the epoch') return go('is refused its merge', 'idle');
      return go(`merges ${messages.join(' ')}`, 'idle', {
        history: [...state.history, ...messages],
        inbox: state.inbox.slice(state.taken),
        outbox: [...state.outbox, { delivery: run, messages }],
        journal: [],
        run: null,
        taken: 0,
        lease: 'none',
      });
    }
  }
}

function claimDelivery(state: State, go: Go): Step | undefined {
  const [head] = state.outbox;
  if (!head || state.sendLease === 'live') return undefined;
  const sendEpoch = state.sendEpoch + 1;
  return go(
    `claims delivery ${head.delivery}`,
    { at: 'sending', delivery: head.delivery, epoch: sendEpoch },
    { sendEpoch, sendLease: 'live' },
  );
}

function send(state: State, worker: Sending, go: Go, omitted: Omission | undefined): Step {
  const { delivery, epoch } = worker;
  if (worker.at === 'sending') {
    const sent = state.outbox.find((entry) => entry.delivery === delivery);
    const arrived = state.arrived.some((entry) => entry.delivery === delivery);
    // A resend carries the same id: nothing new arrives by it.
    return go(
      `sends ${delivery}`,
      { ...worker, at: 'sent' },
      {
        arrived: arrived || !sent ? state.arrived : [...state.arrived, sent],
      },
    );
  }
  const fresh = epoch === state.sendEpoch && state.sendLease !== 'none';
  if (!fresh && omitted !== 'settle checks the epoch') return go('finds its delivery taken over', 'idle');
  return go(`settles ${delivery}`, 'idle', { outbox: state.outbox.slice(1), sendLease: 'none' });
}

function broken(state: State): string | undefined {
  const { appended, inbox, history, outbox, arrived, toolRuns } = state;
  const merged = new Set(history);
  if (merged.size !== history.length) return 'a message was merged twice';
  if (history.some((id, n) => id !== n + 1)) return 'messages were merged out of order';
  for (let id = 1; id <= appended; id++)
    if (!merged.has(id) && !inbox.includes(id)) return 'a message was lost';
  const known = new Map([...arrived, ...outbox].map(({ delivery, messages }) => [delivery, messages]));
  const answered = [...known.values()].flat();
  if (answered.some((id) => !merged.has(id))) return 'a delivery without its merge';
  if (new Set(answered).size !== answered.length) return 'a message was answered twice';
  if (history.some((id) => !answered.includes(id))) return 'a merged message has no delivery';
  const waiting = new Set(outbox.map(({ delivery }) => delivery));
  for (const delivery of known.keys())
    if (!waiting.has(delivery) && !arrived.some((entry) => entry.delivery === delivery))
      return 'a delivery was lost';
  if (new Set(toolRuns).size !== toolRuns.length) return 'a tool that is not idempotent ran twice in one run';
  return undefined;
}
