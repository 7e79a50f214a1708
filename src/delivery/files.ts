// The files that the outbox still names: they must not expire before they are sent.
import type { Outbox } from '../ports/outbox.ts';

const PAGE = 200;

/** References and URLs, in no order; some more than once. */
export async function* filesToSend(outbox: Pick<Outbox, 'list'>): AsyncGenerator<string> {
  for (const state of ['pending', 'parked'] as const) {
    let cursor: string | undefined;
    do {
      const page = await outbox.list({ state, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
      for (const { reply } of page.items) for (const { ref } of reply.attachments ?? []) yield ref;
      ({ cursor } = page);
    } while (cursor !== undefined);
  }
}
