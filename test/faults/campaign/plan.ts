// What a round does, derived from its seed alone: conversations with their messages, how the model and the programs that
// are called back behave, and which faults hit which process when.
import { GATEWAY_POINTS, WORKER_POINTS, type FaultPoint } from '../../fakes/fault-points.ts';
import { createRandom, type Random } from './random.ts';

export type Backend = 'redis' | 'sqlite';

export type ModelFault = 'error' | 'rate_limit' | 'stall' | 'cut' | 'garble' | 'early_end';
/** What a receiver does with a callback that it has read. */
export type CallbackFault = 'error' | 'silence' | 'cut' | 'slow';

export interface PlannedMessage {
  id: string;
  text: string;
  /** Posted once more after this many more messages of its conversation; 0: at once. */
  duplicateAfter?: number;
  /** Of the first model calls about this message. */
  model: ModelFault[];
  /** Of the first callbacks that tell of this message. */
  callbacks: CallbackFault[];
  /** Before the model answers. */
  thinkMs: number;
}

export interface PlannedConversation {
  id: string;
  /** In a group, each message gets a run of its own. */
  group: boolean;
  /** `burst`: all at once, in no known order; `paced`: each after the answer to the one before. */
  pace: 'fast' | 'paced' | 'burst';
  messages: PlannedMessage[];
}

/** Of what is counted while a round runs. */
export type Counter = 'accepted' | 'asked' | 'called_back';

export type Fault =
  | { kind: 'kill'; target: string }
  | { kind: 'kill_at'; target: string; point: FaultPoint; nth: number }
  | { kind: 'stop'; target: string; forMs: number }
  | { kind: 'stop_at'; target: string; point: FaultPoint; nth: number; forMs: number }
  | { kind: 'drain'; target: string }
  | { kind: 'clock'; target: string; byMs: number; forMs: number }
  | { kind: 'redis_kill'; downMs: number }
  | { kind: 'redis_pause'; forMs: number }
  | { kind: 'redis_stop'; forMs: number }
  | { kind: 'cut'; target: string }
  | { kind: 'delay'; target: string; byMs: number; forMs: number }
  | { kind: 'disk_full'; forMs: number };

export type FaultKind = Fault['kind'];

export interface PlannedFault {
  fault: Fault;
  /** When the counter has reached the number. */
  when: { counter: Counter; reaches: number };
  afterMs: number;
}

export interface Plan {
  seed: number;
  backend: Backend;
  conversations: PlannedConversation[];
  faults: PlannedFault[];
}

export const GATEWAYS = ['gateway1', 'gateway2'] as const;
export const WORKERS = ['worker1', 'worker2', 'worker3'] as const;
export const SINGLE = 'server';
export const LOCK_SECONDS = 1;

/** Weighted by how often they are listed. */
const REDIS_KINDS: FaultKind[] = [
  ...(['kill', 'kill', 'kill_at', 'kill_at', 'kill_at', 'kill_at'] as const),
  ...(['stop', 'stop_at', 'stop_at', 'drain', 'clock'] as const),
  ...(['redis_kill', 'redis_kill', 'redis_pause', 'redis_stop', 'cut', 'cut', 'delay'] as const),
];
const SQLITE_KINDS: FaultKind[] = [
  ...(['kill', 'kill', 'kill_at', 'kill_at', 'kill_at', 'kill_at', 'kill_at'] as const),
  ...(['stop', 'drain', 'clock', 'disk_full'] as const),
];

export function makePlan(backend: Backend, seed: number): Plan {
  const random = createRandom(seed);
  const conversations = Array.from({ length: random.between(8, 12) }, (_, n) =>
    planConversation(random, `s${seed}-c${n + 1}`),
  );
  const messages = conversations.reduce((sum, { messages: own }) => sum + own.length, 0);
  const faults = Array.from({ length: random.between(1, 3) }, () => ({
    fault: planFault(random, backend),
    when: {
      counter: random.pick(['accepted', 'asked', 'asked', 'called_back'] as const),
      reaches: random.between(1, Math.ceil(messages * 0.6)),
    },
    afterMs: random.between(0, 40),
  }));
  return { seed, backend, conversations, faults };
}

function planConversation(random: Random, id: string): PlannedConversation {
  const group = random.chance(0.3);
  const pace = random.pick(['fast', 'fast', 'paced', 'burst'] as const);
  const messages = Array.from({ length: random.between(2, 4) }, (_, n) =>
    planMessage(random, `${id}-m${n + 1}`),
  );
  return { id, group, pace, messages };
}

function planMessage(random: Random, id: string): PlannedMessage {
  const calls = random.pick([[], [], ['count_once'], ['count_many'], ['count_once', 'count_many']]);
  const text = [id, ...calls.map((name) => `use:${name}{"tag":"${id}"}`)].join(' ');
  const model = random.chance(0.15)
    ? Array.from({ length: random.between(1, 2) }, () =>
        random.pick(['error', 'rate_limit', 'stall', 'cut', 'garble', 'early_end'] as const),
      )
    : [];
  const callbacks = random.chance(0.2)
    ? Array.from({ length: random.between(1, 2) }, () =>
        random.pick(['error', 'silence', 'cut', 'slow'] as const),
      )
    : [];
  const duplicateAfter = random.chance(0.25) ? random.between(0, 2) : undefined;
  return {
    id,
    text,
    model,
    callbacks,
    thinkMs: random.pick([0, 5, 30, 120]),
    ...(duplicateAfter === undefined ? {} : { duplicateAfter }),
  };
}

function planFault(random: Random, backend: Backend): Fault {
  const kind = random.pick(backend === 'redis' ? REDIS_KINDS : SQLITE_KINDS);
  // Workers more often: that is where the work is.
  const target = backend === 'sqlite' ? SINGLE : random.pick(random.chance(0.65) ? WORKERS : GATEWAYS);
  const longerThanLock = random.between(LOCK_SECONDS * 1_500, LOCK_SECONDS * 2_800);
  const at = () => ({ point: random.pick(pointsOf(target)), nth: random.between(1, 4) });
  switch (kind) {
    case 'kill':
    case 'drain':
    case 'cut':
      return { kind, target };
    case 'kill_at':
      return { kind, target, ...at() };
    case 'stop':
      return { kind, target, forMs: longerThanLock };
    case 'stop_at':
      return { kind, target, ...at(), forMs: longerThanLock };
    case 'clock':
      return { kind, target, byMs: random.pick([3_600_000, -3_600_000, 90_000, -2_000]), forMs: 600 };
    case 'redis_kill':
      return { kind, downMs: random.between(0, 600) };
    case 'redis_pause':
    case 'redis_stop':
      return { kind, forMs: random.between(200, LOCK_SECONDS * 1_700) };
    case 'delay':
      return { kind, target, byMs: random.between(50, 400), forMs: 1_200 };
    case 'disk_full':
      return { kind, forMs: random.between(200, 900) };
  }
}

function pointsOf(target: string): readonly FaultPoint[] {
  if (target === SINGLE) return [...GATEWAY_POINTS, ...WORKER_POINTS];
  return target.startsWith('worker') ? WORKER_POINTS : GATEWAY_POINTS;
}
