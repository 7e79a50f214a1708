// ChannelState: what a channel account has to know again after a restart, on whichever process goes on: logins, cursors,
// tokens. Small JSON values, kept until they are deleted; some are secrets, so that no API shows them. Also which process
// acts for the account where only one may. Rejects only when the storage fails.

export interface ChannelState {
  /** Undefined: not there. */
  get(key: string): Promise<unknown>;
  /** Durable when it resolves. The last one wins. */
  set(key: string, value: unknown): Promise<void>;
  /** Idempotent. */
  delete(key: string): Promise<void>;
  /** Takes or renews the right to act for the account for so long from now, by the storage's clock. False: another has it. */
  lease(holder: string, ms: number): Promise<boolean>;
  /** Gives it back, if this holder has it. */
  release(holder: string): Promise<void>;
}

/** Of one account. */
export type ChannelStates = (account: string) => ChannelState;
