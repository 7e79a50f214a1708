// The running configuration. What can change without a restart is read from `current` each time it is needed; the
// files are read again on SIGHUP and when they are saved.
import { existsSync, watch, type FSWatcher } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Logger } from '../src/ports/log.ts';
import { loadConfig, type LoadOptions } from './load.ts';
import { joinPath, type Path } from './interpolate.ts';
import { differences } from './merge.ts';
import type { Config } from './schema.ts';

/** Settings whose changes apply to the next run: a right that is taken away must be gone. The rest is wired once, at start. */
const LIVE = [
  /^agent(?:\.|$)/u,
  /^tools\.rules(?:\.|$)/u,
  // Account names have no dots.
  /^channels\.[^.]+\.(?:access|admins)(?:\.|$)/u,
];

const isLive = (path: Path): boolean => LIVE.some((pattern) => pattern.test(joinPath(path)));

export type ConfigListener = (next: Config, previous: Config) => void;

export interface ConfigHolder {
  readonly current: Config;
  /** Files that the configuration comes from, those that don't exist yet included. */
  readonly files: readonly string[];
  /** Reads everything again and takes over what is live. Throws ConfigError, and keeps what it had. */
  reload(): { applied: string[]; needRestart: string[] };
  /** Called after each reload that applied something. Returns a function that unsubscribes. */
  onChange(listener: ConfigListener): () => void;
}

/** Loads the configuration. Throws ConfigError. */
export function createConfigHolder(options: LoadOptions = {}): ConfigHolder {
  const loaded = loadConfig(options);
  const listeners = new Set<ConfigListener>();
  let current = loaded.config;

  return {
    get current() {
      return current;
    },
    files: loaded.files,
    reload() {
      const next = loadConfig(options).config;
      const changed = differences(current, next);
      const applied = changed.filter(isLive).map(joinPath);
      const needRestart = changed.filter((path) => !isLive(path)).map(joinPath);
      if (applied.length > 0) {
        const previous = current;
        current = {
          ...current,
          agent: next.agent,
          tools: { ...current.tools, rules: next.tools.rules },
          channels: withRights(current.channels, next.channels),
        };
        for (const listener of listeners) listener(current, previous);
      }
      return { applied, needRestart };
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The accounts as they were wired, with the rights that people have now. */
function withRights(wired: Config['channels'], next: Config['channels']): Config['channels'] {
  const accounts = Object.entries(wired).map(([account, channel]) => {
    const now = next[account];
    if (!now || !('admins' in channel) || !('admins' in now)) return [account, channel] as const;
    return [account, { ...channel, admins: now.admins, access: now.access }] as const;
  });
  return Object.fromEntries(accounts);
}

/** Editors write a file in several steps: the first event starts the wait, and one reload follows. */
const SETTLE_MS = 200;

/** Reloads on SIGHUP and when a file is saved. Returns a function that stops both. */
export function watchConfig(holder: ConfigHolder, log: Logger): () => void {
  let timer: NodeJS.Timeout | undefined;
  let warned = '';

  function reload(): void {
    try {
      const { applied, needRestart } = holder.reload();
      if (applied.length > 0)
        log.info({ keys: applied }, 'configuration re-read; it applies to the next run');
      // The same change is found at every reload until the restart: say it once.
      const waiting = needRestart.join(' ');
      if (waiting && waiting !== warned)
        log.warn({ keys: needRestart }, 'these settings change at the next restart');
      warned = waiting;
    } catch (error) {
      log.error(
        { error },
        'the new configuration is not used, the old one stays: correct the file and save it again',
      );
    }
  }

  const schedule = (): void => {
    clearTimeout(timer);
    timer = setTimeout(reload, SETTLE_MS);
    timer.unref();
  };

  const watchers = watchFolders(holder.files, schedule, log);
  process.on('SIGHUP', reload);
  return () => {
    process.off('SIGHUP', reload);
    clearTimeout(timer);
    for (const watcher of watchers) watcher.close();
  };
}

// The folder and not the file: editors replace a file by renaming another over it, and a file may not exist yet.
function watchFolders(files: readonly string[], changed: () => void, log: Logger): FSWatcher[] {
  const folders = Map.groupBy(files, dirname);
  return [...folders].flatMap(([folder, inside]) => {
    if (!existsSync(folder)) return [];
    const names = new Set(inside.map((file) => basename(file)));
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || names.has(name)) changed();
      });
      watcher.on('error', (error) =>
        log.warn({ error, folder }, 'this folder is no longer watched: send SIGHUP to re-read'),
      );
      return [watcher];
    } catch (error) {
      log.warn({ error, folder }, 'this folder is not watched: send SIGHUP after a change to re-read');
      return [];
    }
  });
}
