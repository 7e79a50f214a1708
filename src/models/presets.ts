// Model layer: what is known of vendors, as data. A preset describes an endpoint, a family a model wherever it is served;
// docs/models.md shows the flags. Everything here can be overridden in the configuration.
import type { ModelSettings } from '../../config/schema.ts';

type Flags = ModelSettings['flags'];
type Bodies = Partial<Record<'off' | 'low' | 'medium' | 'high', Record<string, unknown>>>;

export interface Traits {
  contextWindow?: number;
  maxOutputTokens?: number;
  images?: boolean;
  idleTimeoutMs?: number;
  flags?: Flags;
  thinking?: Bodies;
  extraBody?: Record<string, unknown>;
}

export interface Preset extends Traits {
  provider?: 'openai' | 'anthropic';
  baseUrl?: string;
  /** Host names whose endpoints this describes. */
  hosts?: string[];
  /** Used when the entry names none. */
  model?: string;
  keyless?: boolean;
  auth?: 'bearer' | 'x-api-key';
  anthropicVersion?: string;
}

const effort = (off: string | undefined, low = 'low', medium = 'medium', high = 'high'): Bodies => ({
  ...(off !== undefined && { off: { reasoning_effort: off } }),
  low: { reasoning_effort: low },
  medium: { reasoning_effort: medium },
  high: { reasoning_effort: high },
});

/** `thinking: {type}`, on or off: what GLM, Kimi, Doubao and MiMo share. */
const toggle: Bodies = {
  off: { thinking: { type: 'disabled' } },
  low: { thinking: { type: 'enabled' } },
  medium: { thinking: { type: 'enabled' } },
  high: { thinking: { type: 'enabled' } },
};

const enableThinking = (wrap: (on: boolean) => Record<string, unknown>): Bodies => ({
  off: wrap(false),
  low: wrap(true),
  medium: wrap(true),
  high: wrap(true),
});

export const PRESETS = {
  openai: {
    provider: 'openai',
    hosts: ['api.openai.com'],
    model: 'gpt-5',
    contextWindow: 400_000,
    maxOutputTokens: 32_768,
    // Reasoning is not streamed: minutes may pass without a byte.
    idleTimeoutMs: 300_000,
    flags: {
      max_tokens_field: 'max_completion_tokens',
      prompt_cache_key: true,
      merge_roles: false,
      call_extras: false,
      reasoning: 'drop',
      think_tags: false,
    },
  },
  anthropic: {
    provider: 'anthropic',
    hosts: ['api.anthropic.com'],
    model: 'claude-sonnet-5-5',
    contextWindow: 200_000,
    maxOutputTokens: 32_000,
    flags: { think_tags: false },
  },
  /** Anthropic's language spoken by somebody else. */
  'anthropic-compatible': {
    provider: 'anthropic',
    auth: 'x-api-key',
    anthropicVersion: '2023-06-01',
    flags: { unsigned_thinking: true },
  },
  deepseek: {
    provider: 'openai',
    baseUrl: 'https://api.deepseek.com/v1',
    hosts: ['api.deepseek.com'],
    model: 'deepseek-flash',
    contextWindow: 1_000_000,
    maxOutputTokens: 32_768,
  },
  qwen: {
    provider: 'openai',
    baseUrl: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
    hosts: ['dashscope.aliyuncs.com', 'dashscope-intl.aliyuncs.com', 'dashscope-us.aliyuncs.com'],
    model: 'qwen-plus',
    contextWindow: 131_072,
    thinking: enableThinking((on) => ({ enable_thinking: on })),
  },
  glm: {
    provider: 'openai',
    baseUrl: 'https://open.bigmodel.cn/api/paas/v4',
    hosts: ['open.bigmodel.cn', 'api.z.ai'],
    model: 'glm-5',
    contextWindow: 200_000,
    maxOutputTokens: 32_768,
    images: false,
    thinking: toggle,
    // Usage comes unasked; tool_choice knows `auto` only.
    flags: { stream_usage: false, tool_choice: false },
  },
  kimi: {
    provider: 'openai',
    baseUrl: 'https://api.moonshot.cn/v1',
    hosts: ['api.moonshot.cn', 'api.moonshot.ai', 'api.kimi.com'],
    model: 'kimi-k2.6',
    contextWindow: 262_144,
    maxOutputTokens: 32_768,
  },
  minimax: {
    provider: 'openai',
    baseUrl: 'https://api.minimaxi.com/v1',
    hosts: ['api.minimaxi.com', 'api.minimax.io', 'api.minimax.chat'],
    model: 'MiniMax-M2.5',
    contextWindow: 200_000,
    maxOutputTokens: 32_768,
    images: false,
  },
  doubao: {
    provider: 'openai',
    baseUrl: 'https://ark.cn-beijing.volces.com/api/v3',
    hosts: ['ark.cn-beijing.volces.com', 'ark.ap-southeast.bytepluses.com'],
    model: 'doubao-seed-1-8-251228',
    contextWindow: 256_000,
    maxOutputTokens: 16_384,
    thinking: toggle,
  },
  mimo: {
    provider: 'openai',
    baseUrl: 'https://api.xiaomimimo.com/v1',
    hosts: ['api.xiaomimimo.com'],
    model: 'mimo-v2-flash',
    contextWindow: 262_144,
    images: false,
    thinking: toggle,
  },
  gemini: {
    provider: 'openai',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    hosts: ['generativelanguage.googleapis.com'],
    model: 'gemini-3-flash-preview',
    contextWindow: 1_048_576,
    maxOutputTokens: 32_768,
    thinking: effort(undefined),
    flags: { call_signatures: true, reasoning: 'drop' },
  },
  mistral: {
    provider: 'openai',
    baseUrl: 'https://api.mistral.ai/v1',
    hosts: ['api.mistral.ai'],
    model: 'mistral-medium-latest',
    contextWindow: 128_000,
    flags: {
      call_ids: 'mistral',
      bridge_tool_results: true,
      stream_usage: false,
      reasoning: 'drop',
      call_extras: false,
    },
  },
  openrouter: {
    provider: 'openai',
    baseUrl: 'https://openrouter.ai/api/v1',
    hosts: ['openrouter.ai'],
    thinking: {
      off: { reasoning: { enabled: false } },
      low: { reasoning: { effort: 'low' } },
      medium: { reasoning: { effort: 'medium' } },
      high: { reasoning: { effort: 'high' } },
    },
  },
  ollama: {
    provider: 'openai',
    baseUrl: 'http://127.0.0.1:11434/v1',
    keyless: true,
    // What a small machine's Ollama gives unless OLLAMA_CONTEXT_LENGTH says more; it cuts what is longer without a word.
    contextWindow: 8_192,
    maxOutputTokens: 2_048,
    idleTimeoutMs: 300_000,
    thinking: effort('none'),
    flags: { tool_choice: false },
  },
  vllm: {
    provider: 'openai',
    baseUrl: 'http://127.0.0.1:8000/v1',
    keyless: true,
    contextWindow: 32_768,
    maxOutputTokens: 4_096,
    idleTimeoutMs: 300_000,
    thinking: enableThinking((on) => ({ chat_template_kwargs: { enable_thinking: on } })),
  },
} as const satisfies Record<string, Preset>;

const budget = (low: number, medium: number, high: number): Bodies => ({
  low: { thinking: { type: 'enabled', budget_tokens: low } },
  medium: { thinking: { type: 'enabled', budget_tokens: medium } },
  high: { thinking: { type: 'enabled', budget_tokens: high } },
});

const adaptive = (level: string) => ({ thinking: { type: 'adaptive' }, output_config: { effort: level } });

const DEEPSEEK: Traits = {
  thinking: {
    off: { thinking: { type: 'disabled' } },
    low: { thinking: { type: 'enabled' }, reasoning_effort: 'low' },
    medium: { thinking: { type: 'enabled' }, reasoning_effort: 'high' },
    high: { thinking: { type: 'enabled' }, reasoning_effort: 'max' },
  },
  flags: { reasoning: 'required' },
};

/** Models that want the same wherever they are served; the first that matches counts. Where both say something, the endpoint wins on flags and the model on sizes. */
const FAMILIES: [RegExp, Traits][] = [
  [/deepseek-flash/i, DEEPSEEK],
  [/deepseek/i, { ...DEEPSEEK, images: false }],
  // It always thinks.
  [
    /kimi-k3/i,
    {
      contextWindow: 1_048_576,
      thinking: effort('low', 'low', 'high', 'max'),
      flags: { reasoning: 'required' },
    },
  ],
  [/kimi|moonshot/i, { thinking: toggle, flags: { reasoning: 'required' } }],
  [/mimo/i, { flags: { reasoning: 'required' } }],
  [/minimax-m/i, { flags: { reasoning: 'tags' } }],
  [/^(?:o\d|gpt-5(?:-|$))/i, { thinking: effort('minimal') }],
  [/^gpt-(?:5\.|[6-9])/i, { thinking: effort('none') }],
  [/^gpt-4/i, { contextWindow: 128_000, maxOutputTokens: 16_384 }],
  [/gemini-2\.5-flash/i, { thinking: effort('none') }],
  [/magistral|mistral|devstral|ministral/i, { flags: { call_ids: 'mistral' } }],
  [
    /claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[015](?:-|$)|-2025|$))/i,
    { thinking: budget(2_048, 6_144, 16_384) },
  ],
  [/claude/i, { thinking: { low: adaptive('low'), medium: adaptive('medium'), high: adaptive('high') } }],
];

/** `auto`: by the endpoint's host; without a base_url the provider's own. */
export function presetOf(settings: ModelSettings): Preset {
  if (settings.preset !== 'auto') return settings.preset === 'none' ? {} : PRESETS[settings.preset];
  const provider = settings.provider ?? 'openai';
  if (provider === 'demo') return {};
  if (settings.base_url === '') return PRESETS[provider];
  const host = hostOf(settings.base_url);
  const found = Object.values<Preset>(PRESETS).find(
    (preset) => preset.hosts?.includes(host) && preset.provider === provider,
  );
  if (found) return found;
  return provider === 'anthropic' ? PRESETS['anthropic-compatible'] : {};
}

export const familyOf = (model: string): Traits =>
  FAMILIES.find(([pattern]) => pattern.test(model))?.[1] ?? {};

function hostOf(url: string): string {
  try {
    return new URL(url).hostname;
  } catch {
    return '';
  }
}
