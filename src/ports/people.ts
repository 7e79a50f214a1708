// People: strangers who asked to talk to the bot, and those whom an administrator let in, per channel account. A request
// is kept for a day. Rejects only when the storage fails.
import type { Language } from '../domain/sentences.ts';

export interface Notice {
  conversation: string;
  /** The message that asked. */
  message: string;
  /** Of its ReplyTarget. */
  address: Record<string, unknown>;
  language: Language;
}

export interface Pairing {
  code: string;
  account: string;
  /** The platform's id of the person. */
  person: string;
  name?: string;
  /** How the person is told of an approval. */
  tell?: Notice;
  /** When the person asked: milliseconds since the epoch. */
  at: number;
  /** When and by whom it was approved; absent: it waits. */
  approvedAt?: number;
  approvedBy?: string;
}

export type PairingRequest = Pick<Pairing, 'code' | 'account' | 'person' | 'name' | 'tell'>;

/** Requests of one account that wait at a time: a crowd of strangers fills no disk. */
export const MAX_WAITING_PAIRINGS = 100;
/** How long a request waits. */
export const PAIRING_TTL_MS = 86_400_000;

export interface People {
  /** What is known of the person: the approval, the request that waits, or now this one. Undefined: too many wait. */
  ask(request: PairingRequest): Promise<Pairing | undefined>;
  approved(account: string, person: string): Promise<boolean>;
  /** Undefined: no such code, or it is too old. Approving twice changes nothing. */
  approve(code: string, by: string): Promise<Pairing | undefined>;
  /** Refuses a request or takes an approval back. Undefined: no such code. */
  remove(code: string): Promise<Pairing | undefined>;
  /** All, in the order in which they asked. */
  list(): Promise<Pairing[]>;
}
