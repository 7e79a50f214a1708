// Files of messages: fetched with a size cap into the media store, and passed on by reference.
import type { Attachment } from '../../src/domain/inbound.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { fetchedOf, MAX_FILES, notFetched, type Fetched } from '../shared/files.ts';
import type { FeishuApi } from './client/api.ts';
import type { Resource } from './content.ts';

export interface Media {
  /** Never rejects. */
  fetch(message: string, resources: Resource[]): Promise<Fetched>;
}

export interface MediaOptions {
  api: Pick<FeishuApi, 'resource'>;
  store: MediaStore;
  log: Logger;
}

/** The platform waits 3 s for the acknowledgement. */
const PATIENCE_MS = 2_000;

export function createMedia({ api, store, log }: MediaOptions): Media {
  async function fetchOne(message: string, resource: Resource): Promise<Attachment> {
    const { type, key, name } = resource;
    const kind = type === 'image' ? 'image' : 'file';
    const { bytes, mediaType } = await api.resource(message, key, kind, store.maxBytes);
    return {
      type,
      ...(await store.put({ bytes, media_type: mediaType, ...(name === undefined ? {} : { name }) })),
    };
  }

  return {
    async fetch(message, resources) {
      const { promise: late, resolve } = Promise.withResolvers<'late'>();
      const timer = setTimeout(() => resolve('late'), PATIENCE_MS);
      try {
        const results = await Promise.all(
          resources.slice(0, MAX_FILES).map(async (resource) => {
            const fetched = fetchOne(message, resource).catch((error: unknown) => {
              log.warn({ message, error }, 'a file of a message could not be fetched');
              return undefined;
            });
            const found = await Promise.race([fetched, late]);
            return found === 'late' || found === undefined ? notFetched(resource) : found;
          }),
        );
        return fetchedOf(results);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
