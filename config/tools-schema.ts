// The configuration's shape, section `tools`: what the model may do, and for whom.
import { z } from 'zod';

const count = z.number().int().positive();
const patterns = z.array(z.string().min(1));

/** Every field that is given must match; `*` in a pattern stands for any text. */
const ruleSchema = z.strictObject({
  tools: patterns.optional().describe('names, or <source>/<name> such as mcp:files/*; absent: every tool'),
  accounts: patterns.optional().describe('channel accounts; absent: every one'),
  chats: patterns.optional().describe("the platform's chat ids; absent: every chat"),
  people: patterns.optional().describe('<account>:<sender id>; absent: everybody'),
  roles: z
    .array(z.enum(['admin', 'member']))
    .optional()
    .describe('admin: who is among the admins of the channel account; absent: both'),
  allow: z.boolean().describe('true lets the call through, false refuses it'),
});

const mcpServerSchema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('false: as if it were not there'),
    command: z.string().default('').describe('program to start (stdio); or give url'),
    args: z.array(z.string()).default([]).describe('its arguments'),
    env: z
      .record(z.string(), z.string())
      .default({})
      .describe('its environment, beside PATH, HOME and the like; nothing else of ours is passed on'),
    cwd: z.string().default('').describe("its working folder; empty: the server's"),
    url: z.string().default('').describe('address of a server that speaks streamable HTTP'),
    headers: z.record(z.string(), z.string()).default({}).describe('sent with each request to url'),
    allow: patterns.default(['*']).describe("the server's tools that are taken, by their names there"),
    deny: z.array(z.string()).default([]).describe('of those, the ones left out'),
    start_timeout_ms: count.default(15_000).describe('how long a start may take'),
    timeout_ms: count.default(60_000).describe('how long a call may take'),
    send_files: z
      .boolean()
      .default(false)
      .describe('pictures, sounds and files that its tools give go to people with the answer'),
    trust_hints: z
      .boolean()
      .default(false)
      .describe('believe its readOnly and idempotent hints: such calls are made again after a crash'),
  })
  .refine(({ command, url }) => (command === '') !== (url === ''), {
    message: 'give either command or url',
  });

export const toolsSchema = z.strictObject({
  enabled: z.array(z.string()).default(['calculate', 'now']),
  rules: z.array(ruleSchema).default([]),
  offer_max: z.number().int().min(2).default(24),
  folder: z.string().default(''),
  skills: z.string().default(''),
  mcp: z.strictObject({ servers: z.record(z.string(), mcpServerSchema).default({}) }).prefault({}),
  send_file: z.strictObject({ max_bytes: count.default(1_000_000) }).prefault({}),
  web_fetch: z
    .strictObject({
      max_bytes: count.default(5_000_000),
      max_chars: count.default(30_000),
      timeout_ms: count.default(30_000),
      allow_private: z.boolean().default(false),
    })
    .prefault({}),
  web_search: z
    .strictObject({
      provider: z.enum(['none', 'tavily', 'brave', 'bocha', 'searxng']).default('none'),
      api_key: z.string().default(''),
      base_url: z.string().default(''),
      max_results: count.max(20).default(5),
      timeout_ms: count.default(15_000),
    })
    .prefault({}),
});

export type ToolSettings = z.infer<typeof toolsSchema>;
export type ToolRule = z.infer<typeof ruleSchema>;
export type McpServerSettings = z.infer<typeof mcpServerSchema>;
