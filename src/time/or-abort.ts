// For waits that take no signal: the wait ends with it, what is waited for goes on.
import { addAbortListener } from 'node:events';

/** Rejects with the signal's reason. */
export async function orAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  using _listener = addAbortListener(signal, () => reject(signal.reason));
  return await Promise.race([work, aborted]);
}
