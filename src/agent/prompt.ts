// What the lane and the hooks bring into a run.
import type { Sender } from '../domain/inbound.ts';
import type { Message } from '../domain/messages.ts';

/** A user message on its way into the run, rendered for the model. */
export interface AgentPrompt {
  message: Message;
  /** Id of the inbound message; in the events, the journal and the entry. */
  id?: string;
  /** When it was received, milliseconds since the epoch; default: when the run took it. */
  at?: number;
  /** Who sent it: what tools see as the sender from then on. */
  sender?: Sender;
}
