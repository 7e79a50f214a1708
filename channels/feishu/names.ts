// Names of people: learned from mentions, else asked from the contacts, and kept for a while. Without the scope for it
// (contact:user.base:readonly) people stay nameless, which is told once.
import type { Logger } from '../../src/ports/log.ts';
import type { FeishuApi } from './client/api.ts';

export interface Names {
  learn(openId: string, name: string): void;
  known(openId: string): string | undefined;
  /** Never rejects; undefined if the name isn't known when the signal aborts. */
  of(openId: string, signal: AbortSignal): Promise<string | undefined>;
}

const MAX_NAMES = 5_000;
const KEEP_MS = 24 * 60 * 60 * 1000;
const RETRY_MS = 10 * 60 * 1000;

export function createNames(api: Pick<FeishuApi, 'userName'>, log: Logger, now: () => number): Names {
  const names = new Map<string, { name: string | undefined; until: number }>();
  const asked = new Map<string, Promise<string | undefined>>();
  let told = false;

  function keep(openId: string, name: string | undefined): void {
    if (names.size >= MAX_NAMES) names.delete(names.keys().next().value ?? '');
    names.set(openId, { name, until: now() + (name === undefined ? RETRY_MS : KEEP_MS) });
  }

  async function ask(openId: string): Promise<string | undefined> {
    let name: string | undefined;
    try {
      name = await api.userName(openId);
    } catch (error) {
      if (!told) log.info({ error }, 'names of people are not available: grant contact:user.base:readonly');
      told = true;
    }
    keep(openId, name);
    return name;
  }

  return {
    learn: keep,
    known: (openId) => names.get(openId)?.name,
    async of(openId, signal) {
      const found = names.get(openId);
      if (found && found.until > now()) return found.name;
      if (signal.aborted || openId === '') return found?.name;
      let asking = asked.get(openId);
      if (!asking) {
        asking = ask(openId).finally(() => asked.delete(openId));
        asked.set(openId, asking);
      }
      const late = new Promise<undefined>((resolve) => {
        signal.addEventListener('abort', () => resolve(undefined), { once: true });
      });
      return Promise.race([asking, late]);
    },
  };
}
