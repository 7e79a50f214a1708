// The places in the real server at which fault-server.ts can kill or stop itself, and the orders it takes.

/** Reached by the process that takes messages in and sends answers out. */
export const GATEWAY_POINTS = [
  'before_append',
  'after_append',
  'before_wake',
  'after_wake',
  'after_delivery_claim',
  'before_settle',
  'after_settle',
  'after_retry_later',
] as const;

/** Reached by the process that runs conversations. */
export const WORKER_POINTS = [
  'after_claim',
  'after_renew',
  'after_drain',
  'before_journal',
  'after_tool_start',
  'before_tool',
  'after_tool',
  'after_tool_journal',
  'before_commit',
  'after_commit',
  'before_delivery_wake',
  'after_delivery_wake',
] as const;

/** Where its runs can be made to wait for ever: a tool's start is written; it has run; its result is written. */
export const HOLDS = ['started', 'ran', 'journaled'] as const;

export type FaultPoint = (typeof GATEWAY_POINTS)[number] | (typeof WORKER_POINTS)[number];

export type FaultOrder =
  /** At the nth time that the point is reached from now on, once. */
  | { arm: { point: FaultPoint; nth: number; action: 'kill' | 'stop' } }
  /** Shifts what Date.now() tells, by so much from the real time. */
  | { clockMs: number };
