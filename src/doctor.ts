// `npm run doctor`: would the server start, and would it work? One finding a part, each with what to do. Starts nothing and
// sends no message; a model is only called when asked for.
import { once } from 'node:events';
import { constants, existsSync } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createChannels, isOn, type ChannelDeps } from '../channels/index.ts';
import { loadConfig, PROMPT_FOLDER, searchPath, type LoadOptions } from '../config/load.ts';
import { createPromptSource } from '../config/prompt.ts';
import type { Config } from '../config/schema.ts';
import { checkArguments } from './agent/validate.ts';
import { openStorage } from './backend.ts';
import { createModels, type Models } from './models/index.ts';
import { resolveEntry } from './models/settings.ts';
import type { Logger } from './ports/log.ts';
import type { Tool } from './ports/tool.ts';
import type { Storage } from './ports/storage.ts';
import { systemClock } from './system-clock.ts';
import { checkTools } from './tools/check.ts';
import { builtInTools } from './tools/index.ts';

export interface Finding {
  /** note: works, but look at it. wrong: does not work; the text says what to do. */
  state: 'ok' | 'note' | 'wrong';
  part: string;
  text: string;
}

export interface DoctorOptions extends LoadOptions {
  /** Makes one tiny call to the default model. */
  live?: boolean;
}

const PATIENCE_MS = 5_000;

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Findings as they are made. Later parts need the configuration, so a wrong one is the only finding. */
export async function* diagnose(options: DoctorOptions = {}): AsyncGenerator<Finding> {
  let config: Config;
  try {
    const loaded = loadConfig(options);
    config = loaded.config;
    yield {
      state: 'ok',
      part: 'configuration',
      text: loaded.files.filter((file) => existsSync(file)).join(', then '),
    };
  } catch (error) {
    yield { state: 'wrong', part: 'configuration', text: reasonOf(error) };
    return;
  }
  const running = await runningServer(config);
  yield await checkPort(config, running);
  yield* checkStorage(config, running);
  yield await checkMedia(config);
  yield await checkPrompt();
  const path = searchPath(options);
  const check = (tool: Tool, args: Record<string, unknown>) => checkArguments(tool, args, false);
  yield* checkTools({ settings: config.tools, builtIn: builtInTools(systemClock), check, path });
  yield* checkModels(config, options.live ?? false);
  yield* checkChannels(config, running);
}

interface Running {
  url: string;
  ready: boolean;
}

/** A server of ours that answers where this configuration would listen. */
async function runningServer({ server }: Config): Promise<Running | undefined> {
  const host = ['0.0.0.0', '::', ''].includes(server.host) ? '127.0.0.1' : server.host;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${server.port}`;
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
    const body: unknown = await answer.json();
    const ours = typeof body === 'object' && body !== null && 'status' in body && 'reasons' in body;
    return ours ? { url, ready: answer.ok } : undefined;
  } catch {
    // Nobody listens, or something that isn't ours: checkPort tells the two apart.
    return undefined;
  }
}

async function checkPort({ server }: Config, running: Running | undefined): Promise<Finding> {
  const place = `${server.host}:${server.port}`;
  if (running) {
    const text = `the server is running at ${running.url} and ${running.ready ? 'ready' : `not ready: see ${running.url}/readyz`}`;
    return { state: running.ready ? 'ok' : 'wrong', part: 'server', text };
  }
  const probe = createServer();
  try {
    probe.listen(server.port, server.host);
    await once(probe, 'listening');
    return { state: 'ok', part: 'server', text: `${place} is free` };
  } catch (error) {
    const text = `${place} can't be listened on (${reasonOf(error)}): set another PORT or HOST, or stop the other program`;
    return { state: 'wrong', part: 'server', text };
  } finally {
    probe.close();
  }
}

async function* checkStorage(config: Config, running: Running | undefined): AsyncGenerator<Finding> {
  const embedded = config.storage.url === '';
  const name = embedded ? `embedded SQLite in ${config.storage.data_dir}` : 'Redis';
  if (embedded && running?.ready) {
    // One process at a time may have the file open.
    yield { state: 'ok', part: 'storage', text: `${name}, in use by the running server, which is ready` };
    return;
  }
  const notes: string[] = [];
  try {
    const storage = await openStorage(config, notingLog(notes));
    try {
      await storage.check();
      yield { state: 'ok', part: 'storage', text: `${name}: writing and reading work` };
    } finally {
      await storage.close();
    }
  } catch (error) {
    const hint = embedded ? '' : '; check REDIS_URL (storage.url), and that Redis runs';
    yield { state: 'wrong', part: 'storage', text: `${reasonOf(error)}${hint}` };
    return;
  }
  for (const text of notes) yield { state: 'note', part: 'storage', text };
}

/** Collects warnings: what a storage logs at the start is for the operator as well. */
function notingLog(notes: string[]): Logger {
  const note = (_fields: Record<string, unknown>, message: string) => void notes.push(message);
  const log: Logger = { debug() {}, info() {}, warn: note, error: note, child: () => log };
  return log;
}

async function checkMedia({ media, storage }: Config): Promise<Finding> {
  const folder = media.dir || join(storage.data_dir, 'media');
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return { state: 'ok', part: 'media', text: `files of messages are kept in ${folder}` };
  } catch (error) {
    const text = `files of messages can't be kept (${reasonOf(error)}): check media.dir and who may write there`;
    return { state: 'wrong', part: 'media', text };
  }
}

async function checkPrompt(): Promise<Finding> {
  try {
    const prompt = await createPromptSource(PROMPT_FOLDER).read();
    const text = `system prompt of ${Buffer.byteLength(prompt)} bytes`;
    return { state: 'ok', part: 'agent', text };
  } catch (error) {
    return { state: 'wrong', part: 'agent', text: reasonOf(error) };
  }
}

async function* checkModels(config: Config, live: boolean): AsyncGenerator<Finding> {
  let models: Models;
  try {
    models = createModels(config, { clock: systemClock, log: notingLog([]) });
  } catch (error) {
    yield { state: 'wrong', part: 'models', text: reasonOf(error) };
    return;
  }
  const used = new Set([models.defaultName, ...(config.models[models.defaultName]?.fallbacks ?? [])]);
  for (const info of models.list().filter(({ id }) => used.has(id))) {
    const part = `model ${info.id}`;
    if (info.provider === 'demo') {
      const text =
        'the demo model answers; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add an entry to models';
      yield { state: 'note', part, text };
    } else if (info.ready) yield await checkEndpoint(config, info.id, part);
    else yield { state: 'wrong', part, text: `no key is set: set models.${info.id}.api_key` };
  }
  if (live) yield await callModel(models);
}

const HOME = { openai: 'https://api.openai.com/v1', anthropic: 'https://api.anthropic.com' };

/** Any answer will do: without a call nobody tells whether the key is good. */
async function checkEndpoint(config: Config, name: string, part: string): Promise<Finding> {
  const entry = resolveEntry(name, config.models[name] ?? {});
  const url = entry.baseUrl || (entry.provider === 'anthropic' ? HOME.anthropic : HOME.openai);
  const host = URL.parse(url)?.host ?? 'its base_url';
  try {
    const answer = await fetch(url, {
      method: 'HEAD',
      signal: AbortSignal.timeout(PATIENCE_MS),
      redirect: 'manual',
    });
    await answer.body?.cancel();
    return {
      state: 'ok',
      part,
      text: `${entry.model}: a key is set and ${host} answers (--live makes a call)`,
    };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const text = `${host} does not answer (${reasonOf(cause)}): check models.${name}.base_url and the network`;
    return { state: 'wrong', part, text };
  }
}

async function callModel(models: Models): Promise<Finding> {
  const part = `model ${models.defaultName}`;
  const started = Date.now();
  const stream = models.main().stream(
    {
      system: 'Answer with one word.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Say OK.' }] }],
      tools: [],
      allowTools: false,
      cacheKey: 'doctor',
    },
    AbortSignal.timeout(60_000),
  );
  for await (const event of stream) {
    if (event.type === 'done') return { state: 'ok', part, text: `answered in ${Date.now() - started} ms` };
    if (event.type === 'failed') {
      return { state: 'wrong', part, text: event.error?.message ?? 'did not answer within a minute' };
    }
  }
  return { state: 'wrong', part, text: 'ended without an answer' };
}

/** Channels are made to see whether they can be; they are never started. */
const detached: ChannelDeps = {
  clock: systemClock,
  log: notingLog([]),
  accept: () => Promise.reject(new Error('not started')),
  cancel: () => Promise.resolve(false),
  memory: () => ({ remember: () => Promise.resolve(), find: () => Promise.resolve(undefined) }),
  state: () => ({
    get: () => Promise.reject(new Error('not opened')),
    set: () => Promise.resolve(),
    delete: () => Promise.resolve(),
    lease: () => Promise.resolve(false),
    release: () => Promise.resolve(),
  }),
  leaseMs: 1,
  dataDir: '',
  print: () => undefined,
  publicUrl: '',
  media: {
    maxBytes: 0,
    put: () => Promise.reject(new Error('not started')),
    get: () => Promise.resolve(undefined),
  },
};

/** Where a channel looks up its login. Undefined: none has one, or the storage is the running server's alone. */
async function loginStorage(config: Config, running: Running | undefined): Promise<Storage | undefined> {
  const asked = Object.values(config.channels).some(
    (settings) => settings.type === 'weixin' && isOn(settings),
  );
  if (!asked || (config.storage.url === '' && running?.ready)) return undefined;
  try {
    return await openStorage(config, notingLog([]));
  } catch {
    // Told by checkStorage.
    return undefined;
  }
}

async function* checkChannels(config: Config, running: Running | undefined): AsyncGenerator<Finding> {
  const storage = await loginStorage(config, running);
  const parts = storage ? { ...detached, state: storage.channelState } : detached;
  try {
    yield* checkEach(config, parts);
  } finally {
    await storage?.close();
  }
}

async function* checkEach(config: Config, parts: ChannelDeps): AsyncGenerator<Finding> {
  for (const [account, settings] of Object.entries(config.channels)) {
    const part = `channel ${account}`;
    if (settings.enabled && !isOn(settings)) continue;
    if (!settings.enabled) {
      yield { state: 'ok', part, text: 'disabled' };
      continue;
    }
    try {
      const channel = (await createChannels({ [account]: settings }, parts)).get(account);
      const told = await channel?.check?.();
      await channel?.stop();
      if (told) yield* told.map(({ state, text }) => ({ state, part, text }));
      else yield { state: 'ok', part, text: wayIn(config, account, settings) };
    } catch (error) {
      yield { state: 'wrong', part, text: reasonOf(error) };
    }
  }
}

function wayIn({ server }: Config, account: string, settings: Config['channels'][string]): string {
  if (settings.type === 'feishu') return `app ${settings.app_id}, mode ${settings.mode}`;
  if (settings.type === 'weixin') return settings.base_url;
  if (settings.type === 'wechat') return `puppet ${settings.puppet}`;
  const keys = settings.api_keys.length > 0;
  const url = server.public_url || `http://${server.host}:${server.port}`;
  if (settings.type === 'web') {
    const open = ['127.0.0.1', '::1', 'localhost'].includes(server.host) && !server.public_url;
    if (keys) return `${url}/ with an api key or the admin token`;
    return open
      ? `${url}/ from this machine`
      : `${url}/ with the admin token; set api_keys for everybody else`;
  }
  const ways = [
    settings.secret.length > 0 && 'signed requests',
    keys && 'api keys',
    'the admin token',
  ].filter(Boolean);
  return `POST ${url}/webhook/${account} with ${ways.join(', ')}`;
}
