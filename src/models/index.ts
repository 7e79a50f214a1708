// The models of a configuration: entry names → clients, each with its keys, retries and fallbacks around it. Clients are
// made at the first use, so that a start costs nothing and loads no SDK that is not needed.
import type { Config } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ModelClient } from '../ports/model.ts';
import { createAnthropicClient } from './anthropic/client.ts';
import { createDemoClient } from './demo.ts';
import { createFailover, type RetrySettings } from './failover.ts';
import { createKeyed } from './keys.ts';
import { createOpenAIClient } from './openai/client.ts';
import { withPictures, type PictureSettings } from './pictures.ts';
import { isReady, resolveEntry, type ModelEntry } from './settings.ts';

export interface ModelInfo {
  /** The entry's name. */
  id: string;
  provider: string;
  /** The vendor's name of the model. */
  model: string;
  /** It has what a call needs (a key, or a server that wants none). */
  ready: boolean;
}

export interface Models {
  /** Name of the default entry. */
  readonly defaultName: string;
  /** The default entry's client. */
  main(): ModelClient;
  /** Throws AppError 'config_invalid' for a name that is not an entry. */
  client(name: string): ModelClient;
  /** All entries, the default one first. */
  list(): ModelInfo[];
  /** What people may choose from: the default one first, and those that can be used. */
  offered(): ModelInfo[];
  /** Loads what the default entry needs, so that the first message does not wait for it. */
  warm(): Promise<void>;
}

export interface ModelsOptions {
  clock: Clock;
  log: Logger;
  /** Read at each call; default: the configuration's at the start. */
  retry?: () => RetrySettings;
  /** Where pictures are read, and how many a model is shown. Absent: they are named in words. */
  pictures?: { media: Pick<MediaStore, 'get'>; settings: PictureSettings };
}

type Base = ModelClient & { warm?: () => Promise<void> };

export function createModels(
  config: Pick<Config, 'model' | 'models' | 'agent'>,
  options: ModelsOptions,
): Models {
  const { clock, log, retry = () => config.agent.retry } = options;
  const entries = new Map(
    Object.entries(config.models).map(([name, settings]) => [name, resolveEntry(name, settings)]),
  );
  // Always there to fall back on, whatever the configuration says.
  if (!entries.size || (config.model === 'auto' && ![...entries.values()].some(isUsable)))
    entries.set('demo', DEMO);
  const defaultName =
    config.model === 'auto'
      ? ([...entries.values()].find(isReady)?.name ?? firstDemo(entries))
      : config.model;
  const bases = new Map<string, Base>();
  const wholes = new Map<string, ModelClient>();

  const entry = (name: string): ModelEntry => {
    const found = entries.get(name);
    if (!found)
      throw new AppError(
        'config_invalid',
        `no model "${name}"; there are: ${[...entries.keys()].join(', ')}`,
      );
    return found;
  };
  const base = (name: string): Base => {
    const made = bases.get(name) ?? seeing(createBase(entry(name), log));
    bases.set(name, made);
    return made;
  };
  const seeing = (made: Base): Base =>
    options.pictures ? { ...made, ...withPictures(made, { ...options.pictures, log }) } : made;
  const client = (name: string): ModelClient => {
    const made = wholes.get(name);
    if (made) return made;
    // An entry's fallbacks are its own: those of its fallbacks do not count, so that there is no cycle.
    const names: [string, ...string[]] = [name, ...entry(name).fallbacks.filter((other) => other !== name)];
    const [first, ...rest] = names.map((each) => createKeyed(base(each), entry(each).keys, { clock, log }));
    if (!first) throw new TypeError('unreachable: names is never empty');
    const whole = createFailover([first, ...rest], { retry, clock, log });
    wholes.set(name, whole);
    return whole;
  };

  const list = (): ModelInfo[] =>
    [entry(defaultName), ...[...entries.values()].filter(({ name }) => name !== defaultName)].map((each) => ({
      id: each.name,
      provider: each.provider,
      model: each.model,
      ready: isUsable(each),
    }));

  return {
    defaultName,
    main: () => client(defaultName),
    client,
    list,
    offered: () => list().filter(({ id, ready }) => ready || id === defaultName),
    warm: async () => base(defaultName).warm?.(),
  };
}

const DEMO = resolveEntry('demo', { provider: 'demo' });

const isUsable = (entry: ModelEntry): boolean => entry.provider === 'demo' || isReady(entry);

const firstDemo = (entries: ReadonlyMap<string, ModelEntry>): string =>
  [...entries.values()].find(({ provider }) => provider === 'demo')?.name ?? 'demo';

function createBase(entry: ModelEntry, log: Logger): Base {
  if (entry.provider === 'demo') return createDemoClient(entry);
  return entry.provider === 'anthropic' ? createAnthropicClient(entry) : createOpenAIClient(entry, { log });
}
