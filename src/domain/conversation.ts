// Conversation ids: `<account>:<chat>` or `<account>:<chat>:<thread or sender>`. Chat ids are the platform's own
// and may hold any character, so an id is only ever split at the first colon (account names hold none).

/** Account names come from configuration keys. */
export const ACCOUNT_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** Longest chat id accepted from outside, in characters. */
export const MAX_CHAT_CHARS = 256;

export function conversationId(account: string, chat: string, scope?: string): string {
  return scope === undefined ? `${account}:${chat}` : `${account}:${chat}:${scope}`;
}

/**
 * Whose conversation a message belongs to. `scope` counts in groups: one conversation for the chat, for each sender, or
 * for each thread (then what is in no thread shares the chat's).
 */
export function conversationOf(
  account: string,
  message: { chat: string; thread?: string; group?: boolean; sender: { id: string } },
  scope: 'chat' | 'sender' | 'thread' = 'thread',
): string {
  const { chat, thread, group, sender } = message;
  if (!group || scope === 'thread') return conversationId(account, chat, thread);
  return conversationId(account, chat, scope === 'sender' ? sender.id : undefined);
}

/** Whose account a conversation belongs to; an id without a colon is returned whole. */
export function accountOf(conversation: string): string {
  const colon = conversation.indexOf(':');
  return colon === -1 ? conversation : conversation.slice(0, colon);
}
