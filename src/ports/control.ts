// RunControl: reaching the process that runs a conversation, within milliseconds. `cancel` leaves a durable mark on the
// run as well (seen by renew and by the next claim), so that a lost signal only makes it slower.

export interface RunControl {
  /** Marks the active or interrupted run as cancelled and signals it. Undefined if none is active. */
  cancel(conversation: string): Promise<string | undefined>;
  /**
   * Calls back in every process for: 'cancel' (also sent by a reset), and 'arrived' (a message was appended while a
   * run holds the lease: steering or interrupting may apply). Returns a function that unsubscribes.
   */
  onSignal(
    handler: (signal: { type: 'cancel' | 'arrived'; conversation: string; run?: string }) => void,
  ): () => void;
}
