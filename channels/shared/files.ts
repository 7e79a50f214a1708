// Files of a message that a channel fetches: those that came, and for the others words that the model reads in their place.
import type { Attachment } from '../../src/domain/inbound.ts';

export interface Fetched {
  attachments: Attachment[];
  /** What could not be fetched, in words for the model. */
  notes: string[];
}

/** Of one message; more are left out. */
export const MAX_FILES = 10;

export const notFetched = ({ type, name }: Pick<Attachment, 'type' | 'name'>): string =>
  `(a file of type ${type}${name === undefined ? '' : `, ${name}`}, that could not be fetched)`;

/** Both kinds keep their order. */
export const fetchedOf = (results: readonly (Attachment | string)[]): Fetched => ({
  attachments: results.filter((result) => typeof result !== 'string'),
  notes: results.filter((result) => typeof result === 'string'),
});
