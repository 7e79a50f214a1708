// Files of messages: fetched from the CDN into the media store, and passed on by reference.
import type { Attachment } from '../../src/domain/inbound.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { fetchedOf, MAX_FILES, notFetched, type Fetched } from '../shared/files.ts';
import type { WeixinApi } from './client/api.ts';
import type { Resource } from './parse.ts';

export interface Media {
  /** Never rejects. */
  fetch(resources: readonly Resource[], signal: AbortSignal): Promise<Fetched>;
}

export interface MediaOptions {
  api: Pick<WeixinApi, 'download'>;
  store: MediaStore;
  log: Logger;
}

/** Messages that came after it wait as long. */
const PATIENCE_MS = 20_000;

export function createMedia({ api, store, log }: MediaOptions): Media {
  async function fetchOne(resource: Resource, signal: AbortSignal): Promise<Attachment | string> {
    const { type, file, name, mediaType } = resource;
    try {
      const bytes = await api.download(file, store.maxBytes, signal);
      const kept = await store.put({
        bytes,
        ...(mediaType === undefined ? {} : { media_type: mediaType }),
        ...(name === undefined ? {} : { name }),
      });
      return { type, ...kept };
    } catch (error) {
      log.warn({ error, type }, 'a file of a message could not be fetched');
      return notFetched(resource);
    }
  }

  return {
    async fetch(resources, signal) {
      if (resources.length === 0) return { attachments: [], notes: [] };
      const limit = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
      const results = await Promise.all(resources.slice(0, MAX_FILES).map((one) => fetchOne(one, limit)));
      return fetchedOf(results);
    },
  };
}
