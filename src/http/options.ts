// What the HTTP side needs of the rest of the server; given by the composition root.
import type { Config } from '../../config/schema.ts';
import type { Accept, Channel } from '../ports/channel.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { Storage } from '../ports/storage.ts';
import type { ToolReport } from '../tools/index.ts';

export interface AppOptions {
  config: Config;
  storage: Storage;
  accept: Accept;
  /** Running channels by account; empty in a worker, which then serves health and metrics only. */
  channels: ReadonlyMap<string, Channel>;
  /** Files of messages. */
  media: MediaStore;
  /** For /v1/models, the default one first. */
  models: readonly { id: string }[];
  /** For /api/tools; absent: there are none. */
  tools?: () => ToolReport;
  metrics: { contentType: string; render(): Promise<string> };
  log: Logger;
  adminToken: string;
  state: {
    draining(): boolean;
    /** Why the server isn't ready; empty when it is. Never rejects. */
    ready(): Promise<string[]>;
  };
  /** Default: the system's. */
  clock?: Pick<Clock, 'now'>;
}
