// Which day it is, for what is counted by day.

/** YYYY-MM-DD at `at` (milliseconds since the epoch) in an IANA time zone. */
export function dayOf(at: number, zone: string): string {
  if (zone === 'UTC') return new Date(at).toISOString().slice(0, 10);
  return new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' }).format(at);
}

/** Names of Spending: everything a sender of an account uses, and everything in a conversation. */
export const spenderOf = (account: string, sender: string): string => `user ${account}:${sender}`;
export const spendingOf = (conversation: string): string => `conversation ${conversation}`;
