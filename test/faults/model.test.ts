// The protocol, checked exhaustively: with its checks nothing goes wrong, and without any one of them something does.
import { describe, expect, test } from 'vitest';
import { explore } from './model/explore.ts';
import { laneProtocol, type Omission } from './model/protocol.ts';

describe('the protocol of lease, merge and outbox', () => {
  test('holds in every state that two workers, two messages, two crashes and two late leases can lead to', () => {
    const { counterexample, states } = explore(laneProtocol());
    expect(counterexample).toBeUndefined();
    expect(states).toBeGreaterThan(10_000);
  });

  test.each<[Omission, string]>([
    ['commit checks the epoch', 'a message was merged twice'],
    ['settle checks the epoch', 'a merged message has no delivery'],
    ['the start of a tool is journaled', 'a tool that is not idempotent ran twice in one run'],
  ])('breaks unless %s', (omitted, reason) => {
    const { counterexample } = explore(laneProtocol(omitted));
    expect(counterexample?.reason).toBe(reason);
    // The shortest way to it: short enough to be read.
    expect(counterexample?.path.length).toBeLessThan(20);
  });
});
