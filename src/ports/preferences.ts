// Preferences: what people chose for their conversation by command. Outlives /new; forgotten with the conversation.
// Rejects only when the storage fails.

export interface Preference {
  /** Name of a model entry; absent: the default one. */
  model?: string;
  /** The id of the newest run when /compact was said: history up to its last entry is to be summed up. */
  compact?: string;
}

export interface Preferences {
  get(conversation: string): Promise<Preference>;
  /** Replaces the fields that are there; `null` takes one away. Atomic. */
  set(conversation: string, change: { [K in keyof Preference]?: Preference[K] | null }): Promise<void>;
}
