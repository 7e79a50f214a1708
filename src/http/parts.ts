// What the route files share, made once by app.ts.
import type { ChannelMessage } from '../ports/channel.ts';
import type { Auth } from './auth.ts';
import type { Intake } from './intake.ts';
import type { RateLimiter } from './limits.ts';
import type { AppOptions } from './options.ts';
import type { EventStreams } from './sse.ts';

export interface HttpParts {
  options: AppOptions;
  auth: Auth;
  streams: EventStreams;
  intake: Intake;
  /** Whose conversation a message belongs to. */
  conversationOf: (account: string, message: ChannelMessage) => string;
  /** Messages of each account. */
  messageLimit: RateLimiter;
  /** Aborted when the app closes: waiting requests are answered with what there is. */
  closing: AbortSignal;
  now: () => number;
}
