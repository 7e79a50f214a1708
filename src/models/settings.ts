// Model layer: one entry of `models:` with everything decided: the vendor's preset below, the model family's over it, the
// operator's own settings on top.
import type { ModelSettings } from '../../config/schema.ts';
import { familyOf, presetOf, type Traits } from './presets.ts';

export type Provider = 'openai' | 'anthropic' | 'demo';

/** What differs between endpoints that claim to speak the same language. Explained in docs/models.md. */
export type Flags = Required<ModelSettings['flags']>;

export interface ModelEntry {
  name: string;
  provider: Provider;
  /** The vendor's name of the model. */
  model: string;
  /** Empty: the vendor's own endpoint. */
  baseUrl: string;
  keys: string[];
  /** The endpoint needs no key (a local server). */
  keyless: boolean;
  contextWindow: number;
  maxOutputTokens: number;
  images: boolean;
  idleTimeoutMs: number;
  fallbacks: string[];
  flags: Flags;
  /** Thinking level → what is merged into the request's body. */
  thinking: Record<string, Record<string, unknown>>;
  extraBody: Record<string, unknown>;
  extraHeaders: Record<string, string>;
  auth: 'bearer' | 'x-api-key';
  /** Empty: the SDK's own. */
  anthropicVersion: string;
}

const FLAGS: Flags = {
  system_role: 'system',
  max_tokens_field: 'max_tokens',
  stream_usage: true,
  prompt_cache_key: false,
  tools: true,
  tool_choice: true,
  empty_tools: false,
  merge_roles: true,
  bridge_tool_results: false,
  call_ids: 'openai',
  call_extras: true,
  call_signatures: false,
  reasoning: 'remembered',
  reasoning_field: '',
  think_tags: true,
  cumulative: false,
  cache_control: true,
  unsigned_thinking: false,
};

/** What the schema fills in, for entries that come from elsewhere. */
const DEFAULTS: ModelSettings = {
  preset: 'auto',
  model: '',
  base_url: '',
  api_key: '',
  context_window: 0,
  max_output_tokens: 0,
  fallbacks: [],
  images: 'auto',
  idle_timeout_ms: 0,
  auth: 'auto',
  anthropic_version: '',
  flags: {},
  thinking: {},
  extra_body: {},
  extra_headers: {},
};

export function resolveEntry(name: string, given: Partial<ModelSettings>): ModelEntry {
  const settings = { ...DEFAULTS, ...given };
  const preset = presetOf(settings);
  const model = settings.model || preset.model || '';
  const family: Traits = familyOf(model);
  const provider: Provider = settings.provider ?? preset.provider ?? 'openai';
  const pick = <Value>(
    own: Value | undefined,
    key: 'contextWindow' | 'maxOutputTokens' | 'images' | 'idleTimeoutMs',
    rest: Value,
  ): Value => own ?? ((family[key] ?? preset[key] ?? rest) as Value);
  return {
    name,
    provider,
    model,
    baseUrl: settings.base_url || preset.baseUrl || '',
    keys: [settings.api_key].flat().filter((key) => key !== ''),
    keyless: preset.keyless ?? LOOPBACK.test(settings.base_url),
    contextWindow: pick(settings.context_window || undefined, 'contextWindow', 128_000),
    maxOutputTokens: pick(settings.max_output_tokens || undefined, 'maxOutputTokens', 8_192),
    images: pick(settings.images === 'auto' ? undefined : settings.images, 'images', true),
    idleTimeoutMs: pick(settings.idle_timeout_ms || undefined, 'idleTimeoutMs', 120_000),
    fallbacks: settings.fallbacks,
    flags: { ...FLAGS, ...family.flags, ...preset.flags, ...defined(settings.flags) },
    thinking: { ...family.thinking, ...preset.thinking, ...defined(settings.thinking) },
    extraBody: { ...preset.extraBody, ...family.extraBody, ...settings.extra_body },
    extraHeaders: settings.extra_headers,
    auth: settings.auth === 'auto' ? (preset.auth ?? 'bearer') : settings.auth,
    anthropicVersion: settings.anthropic_version || preset.anthropicVersion || '',
  };
}

const LOOPBACK = /^https?:\/\/(?:localhost|127(?:\.\d+){3}|\[::1\])(?:[:/]|$)/i;

/** A call to it can be made: it has a key, or needs none. */
export const isReady = (entry: ModelEntry): boolean =>
  entry.provider !== 'demo' && (entry.keys.length > 0 || entry.keyless) && entry.model !== '';

const defined = <Value extends object>(value: Value): Value =>
  Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as Value;

/** The key's header: the vendor's, or none at all for a server without keys, unless the operator sends one of their own. */
export function authHeaders(key: string, { auth, extraHeaders }: ModelEntry): Record<string, string | null> {
  const own = Object.keys(extraHeaders).some((name) => name.toLowerCase() === 'authorization');
  const bearer = key && auth === 'bearer' ? `Bearer ${key}` : null;
  return {
    ...((bearer !== null || !own) && { Authorization: bearer }),
    ...(key && auth === 'x-api-key' && { 'x-api-key': key }),
  };
}
