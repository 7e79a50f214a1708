// The configuration's shape: zod, from which the types, the JSON Schema for editors and the error texts come.
// Defaults live here and are shown, one comment each, in default.yaml (a test holds the two together).
import { z } from 'zod';
import { peopleSettings, spendingLimitsSchema } from './people-schema.ts';
import { toolsSchema } from './tools-schema.ts';

const ms = z.number().int().nonnegative();
const count = z.number().int().positive();
const share = z.number().positive().max(1);
/** Of a breaker; 0 turns it off. */
const threshold = z.number().int().nonnegative();
const busyMode = z.enum(['steer', 'followup', 'collect', 'interrupt']);

const serverSchema = z.strictObject({
  host: z.string().default('127.0.0.1'),
  port: z.number().int().min(0).max(65535).default(3000),
  public_url: z.string().default(''),
  admin_token: z.string().default(''),
  drain_seconds: z.number().nonnegative().default(30),
  body_limit_bytes: count.default(1_048_576 * 2),
  /** 0: no bound. */
  overload: z
    .strictObject({
      conversation_messages: z.number().int().nonnegative().default(1_000),
      conversations: z.number().int().nonnegative().default(100_000),
      event_loop_delay_ms: ms.default(2_000),
    })
    .prefault({}),
  log_level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
});

const storageSchema = z.strictObject({
  url: z.string().default(''),
  tls: z
    .strictObject({
      ca_file: z.string().default(''),
      cert_file: z.string().default(''),
      key_file: z.string().default(''),
    })
    .prefault({}),
  data_dir: z.string().default('./data'),
  history_ttl_days: z.number().nonnegative().default(0),
  dedupe_hours: z.number().positive().default(48),
});

const mediaSchema = z.strictObject({
  dir: z.string().default(''),
  max_bytes: count.max(1_073_741_824).default(20_971_520),
  types: z.array(z.string().min(1)).default(['*']),
  deny_types: z.array(z.string().min(1)).default([]),
  /** 0 keeps files for good. */
  ttl_days: z.union([z.literal(0), z.number().min(1)]).default(7),
  pictures: z
    .strictObject({
      max: count.default(20),
      max_bytes: count.default(3_900_000),
      total_bytes: count.default(15_000_000),
    })
    .prefault({}),
});

const workersSchema = z.strictObject({
  concurrency: count.default(100),
  lock_seconds: z.number().positive().default(30),
  sweep_seconds: z.number().positive().default(30),
  max_attempts: count.default(5),
});

/** How an endpoint differs from what the rest of its kind does; unset: as its preset says. See docs/models.md. */
const modelFlagsSchema = z
  .strictObject({
    system_role: z.enum(['system', 'developer', 'user']),
    max_tokens_field: z.enum(['max_tokens', 'max_completion_tokens', 'none']),
    stream_usage: z.boolean(),
    prompt_cache_key: z.boolean(),
    tools: z.boolean(),
    tool_choice: z.boolean(),
    empty_tools: z.boolean(),
    merge_roles: z.boolean(),
    bridge_tool_results: z.boolean(),
    call_ids: z.enum(['openai', 'anthropic', 'mistral']),
    call_extras: z.boolean(),
    call_signatures: z.boolean(),
    reasoning: z.enum(['remembered', 'required', 'tags', 'drop']),
    reasoning_field: z.string(),
    think_tags: z.boolean(),
    cumulative: z.boolean(),
    cache_control: z.boolean(),
    unsigned_thinking: z.boolean(),
  })
  .partial();

const requestBody = z.record(z.string(), z.unknown());

export const modelSchema = z.strictObject({
  provider: z.enum(['openai', 'anthropic', 'demo']).optional(),
  /** Where the values below come from that are not set; auto: from base_url. */
  preset: z
    .enum([
      'auto',
      'none',
      'openai',
      'anthropic',
      'anthropic-compatible',
      'deepseek',
      'qwen',
      'glm',
      'kimi',
      'minimax',
      'doubao',
      'mimo',
      'gemini',
      'mistral',
      'openrouter',
      'ollama',
      'vllm',
    ])
    .default('auto'),
  model: z.string().default(''),
  base_url: z.string().default(''),
  api_key: z.union([z.string(), z.array(z.string())]).default(''),
  /** 0: as the preset says. */
  context_window: z.number().int().nonnegative().default(0),
  max_output_tokens: z.number().int().nonnegative().default(0),
  fallbacks: z.array(z.string()).default([]),
  images: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  idle_timeout_ms: ms.default(0),
  auth: z.enum(['auto', 'bearer', 'x-api-key']).default('auto'),
  anthropic_version: z.string().default(''),
  flags: modelFlagsSchema.default({}),
  /** Thinking level → what is merged into the request's body. */
  thinking: z.partialRecord(z.enum(['off', 'low', 'medium', 'high']), requestBody).default({}),
  /** Merged into the request's body as it is. */
  extra_body: requestBody.default({}),
  extra_headers: z.record(z.string(), z.string()).default({}),
});

export const agentSchema = z.strictObject({
  max_steps: count.default(100),
  on_busy: z
    .strictObject({ direct: busyMode.default('steer'), group: busyMode.default('followup') })
    .prefault({}),
  debounce_ms: ms.default(0),
  steering: z.enum(['one-at-a-time', 'all']).default('all'),
  follow_up: z.enum(['one-at-a-time', 'all']).default('all'),
  max_batch: count.default(20),
  tool_timeout_ms: ms.default(120_000),
  tool_execution: z.enum(['auto', 'sequential']).default('auto'),
  tool_result_max_chars: count.default(50_000),
  tool_result_kept_chars: count.default(20_000),
  max_context_tokens: count.default(400_000),
  max_context_turns: count.default(100),
  context: z
    .strictObject({
      reserve_ratio: share.default(0.4),
      reserve_min_tokens: count.default(8_000),
      reserve_max_tokens: count.default(400_000),
      compact_to: share.default(0.5),
      overflow_to: share.default(0.9),
      summary_max_tokens: count.default(1_000),
    })
    .prefault({}),
  thinking_kept_chars: count.default(4_096),
  breakers: z
    .strictObject({
      window: count.default(50),
      same_call: threshold.default(5),
      same_call_failed: threshold.default(3),
      tool_failed: threshold.default(6),
      tool_failed_end: threshold.default(8),
      repeat_hint: threshold.default(3),
      repeat_hint_window: count.default(10),
    })
    .prefault({}),
  retry: z
    .strictObject({
      attempts: z.number().int().nonnegative().default(3),
      base_ms: ms.default(500),
      max_ms: ms.default(60_000),
    })
    .prefault({}),
  empty_reply_retries: z.number().int().nonnegative().default(1),
  empty_reply_text: z.string().default(''),
});

const limits = z
  .strictObject({ per_minute: count.default(600), body_bytes: count.default(1_048_576) })
  .prefault({});

const webhookChannelSchema = z.strictObject({
  type: z.literal('webhook'),
  enabled: z.boolean().default(true),
  secret: z.union([z.string(), z.array(z.string())]).default(''),
  api_keys: z.array(z.string()).default([]),
  allow_private_callbacks: z.boolean().default(false),
  ...peopleSettings,
  limits,
});

const webChannelSchema = z.strictObject({
  type: z.literal('web'),
  enabled: z.boolean().default(true),
  api_keys: z.array(z.string()).default([]),
  limits,
});

const feishuChannelSchema = z.strictObject({
  type: z.literal('feishu'),
  enabled: z.boolean().default(true),
  /** The vendor's client silently does nothing with an id of another form. */
  app_id: z
    .string()
    .regex(/^(?:cli_[0-9a-fA-F]{16})?$/, 'must be cli_ and 16 hexadecimal digits, or empty')
    .default(''),
  app_secret: z.string().default(''),
  mode: z.enum(['websocket', 'webhook']).default('websocket'),
  /** feishu, lark, or an address. */
  domain: z.union([z.enum(['feishu', 'lark']), z.url({ protocol: /^https?$/ })]).default('feishu'),
  encrypt_key: z.string().default(''),
  verification_token: z.string().default(''),
  max_age_minutes: z.number().positive().default(30),
  mention_all: z.boolean().default(false),
  typing: z.boolean().default(true),
  streaming: z.boolean().default(true),
  ...peopleSettings,
});

const wechatChannelSchema = z.strictObject({
  type: z.literal('wechat'),
  enabled: z.boolean().default(true),
  puppet: z.string().default(''),
  /** Passed on as they are; may hold secrets. */
  puppet_options: z.record(z.string(), z.unknown()).default({}),
  env: z.record(z.string(), z.string()).default({}),
  memory: z.string().default(''),
  max_age_minutes: z.number().positive().default(30),
  unknown_outcome: z.enum(['resend', 'park']).default('resend'),
  ...peopleSettings,
});

const weixinChannelSchema = z.strictObject({
  type: z.literal('weixin'),
  enabled: z.boolean().default(true),
  base_url: z.url({ protocol: /^https?$/ }).default('https://ilinkai.weixin.qq.com'),
  /** Empty: Tencent's, or below another base_url. */
  cdn_url: z.union([z.literal(''), z.url({ protocol: /^https?$/ })]).default(''),
  max_age_minutes: z.number().positive().default(1_440),
  typing: z.boolean().default(true),
  ...peopleSettings,
});

const channelSchema = z.discriminatedUnion('type', [
  webhookChannelSchema,
  webChannelSchema,
  feishuChannelSchema,
  weixinChannelSchema,
  wechatChannelSchema,
]);

const deliverySchema = z.strictObject({
  concurrency: count.default(50),
  max_attempts: count.default(8),
  base_ms: ms.default(1_000),
  max_ms: ms.default(300_000),
  timeout_ms: ms.default(15_000),
});

export const configSchema = z.strictObject({
  server: serverSchema.prefault({}),
  storage: storageSchema.prefault({}),
  media: mediaSchema.prefault({}),
  workers: workersSchema.prefault({}),
  model: z.string().default('auto'),
  models: z.record(z.string(), modelSchema).default({}),
  agent: agentSchema.prefault({}),
  tools: toolsSchema.prefault({}),
  limits: spendingLimitsSchema.prefault({}),
  delivery: deliverySchema.prefault({}),
  channels: z.record(z.string(), channelSchema).default({}),
});

export type Config = z.infer<typeof configSchema>;
export type AgentSettings = Config['agent'];
export type { PeopleSettings, SpendingLimits } from './people-schema.ts';
export type { McpServerSettings, ToolRule, ToolSettings } from './tools-schema.ts';
export type ModelSettings = z.infer<typeof modelSchema>;
export type ChannelSettings = z.infer<typeof channelSchema>;
export type WebhookSettings = z.infer<typeof webhookChannelSchema>;
export type WebSettings = z.infer<typeof webChannelSchema>;
export type FeishuSettings = z.infer<typeof feishuChannelSchema>;
export type WeixinSettings = z.infer<typeof weixinChannelSchema>;
export type WechatSettings = z.infer<typeof wechatChannelSchema>;
