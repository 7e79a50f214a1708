// An endpoint that rejects a request often says what it can't take. What it says is learnt, once each, and the request is
// made again: so that an unknown gateway works without its flags being configured.
import type { Failure } from '../errors.ts';
import type { Flags } from '../settings.ts';

interface Lesson {
  /** In the vendor's message, lower-cased. */
  says: RegExp;
  learn: (flags: Flags) => Partial<Flags>;
}

const REJECTED =
  '(?:unsupported|not support|unrecognized|unknown|unexpected|not (?:permitted|allowed)|extra|invalid|additional)';

const rejects = (parameter: string): RegExp =>
  new RegExp(`${REJECTED}.*${parameter}|${parameter}.*${REJECTED}`);

const LESSONS: Lesson[] = [
  {
    says: /max_completion_tokens.*instead|use ['"`]?max_completion_tokens/,
    learn: () => ({ max_tokens_field: 'max_completion_tokens' }),
  },
  { says: rejects('max_completion_tokens'), learn: () => ({ max_tokens_field: 'max_tokens' }) },
  {
    says: /max_tokens and max_completion_tokens|max_completion_tokens and max_tokens/,
    learn: () => ({ max_tokens_field: 'none' }),
  },
  { says: rejects('stream_options'), learn: () => ({ stream_usage: false }) },
  { says: rejects('prompt_cache_key'), learn: () => ({ prompt_cache_key: false }) },
  {
    // Ollama; OpenRouter; vLLM; llama.cpp; others
    says: /not support.{0,12} (?:tools?\b|function call)|\b(?:tools?|function call(?:s|ing)?)\b.{0,16} not support|support tool use|--enable-auto-tool-choice|tools param requires --jinja/,
    learn: () => ({ tools: false }),
  },
  { says: rejects('tool_choice'), learn: () => ({ tool_choice: false }) },
  { says: /tools=\[\]|`?tools=?`? param/, learn: () => ({ empty_tools: true }) },
  { says: rejects('developer'), learn: () => ({ system_role: 'system' }) },
  {
    says: /(?:system role|system message|developer instruction).*not (?:supported|enabled)/,
    learn: () => ({ system_role: 'user' }),
  },
  {
    says: /roles? must alternate|must alternate/,
    learn: () => ({ merge_roles: true, bridge_tool_results: true }),
  },
  { says: /role ['"`]?user['"`]? after role ['"`]?tool/, learn: () => ({ bridge_tool_results: true }) },
  {
    says: /reasoning(?:_content)?.*(?:missing|must be passed|required)|missing.*reasoning/,
    learn: () => ({ reasoning: 'required' }),
  },
  { says: rejects('reasoning(?:_content|_details|_text)?'), learn: () => ({ reasoning: 'drop' }) },
  {
    says: /thought_?signature.*(?:missing|required)|missing.*thought_?signature/,
    learn: () => ({ call_signatures: true }),
  },
  { says: rejects('extra_content'), learn: () => ({ call_extras: false, call_signatures: false }) },
];

/** Of a request; OpenRouter and llama.cpp have others for a model without tools. */
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 422, 500, 501]);

/** The flags to go on with; undefined if nothing new can be learnt from this failure. */
export function learn(flags: Flags, failure: Failure): { flags: Flags; changed: Partial<Flags> } | undefined {
  if (!REFUSALS.has(failure.status ?? 0)) return undefined;
  const message = failure.message.toLowerCase();
  for (const lesson of LESSONS) {
    if (!lesson.says.test(message)) continue;
    const changed = lesson.learn(flags);
    const fresh = Object.entries(changed).some(([flag, value]) => flags[flag as keyof Flags] !== value);
    if (fresh) return { flags: { ...flags, ...changed }, changed };
  }
  return undefined;
}
