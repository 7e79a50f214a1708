// Model layer: call ids on the wire. A history may hold ids of any vendor; each has its own idea of a valid one. An id
// that fits goes out as it is, another becomes a hash of itself: the same in every request, so that prefixes stay equal.
import { createHash, randomUUID } from 'node:crypto';

export type IdRule = 'openai' | 'anthropic' | 'mistral';

const RULES: Record<IdRule, { valid: RegExp; make: (hash: string) => string }> = {
  openai: { valid: /^[\w.:-]{1,40}$/, make: (hash) => `call_${hash.slice(0, 24)}` },
  anthropic: { valid: /^[a-zA-Z0-9_-]{1,64}$/, make: (hash) => `toolu_${hash.slice(0, 24)}` },
  mistral: { valid: /^[a-zA-Z0-9]{9}$/, make: (hash) => hash.slice(0, 9) },
};

export function callId(id: string, rule: IdRule): string {
  const { valid, make } = RULES[rule];
  return valid.test(id) ? id : make(createHash('sha256').update(id).digest('hex'));
}

/** For a call that came without a usable id of its own. */
export const newCallId = (): string => `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
