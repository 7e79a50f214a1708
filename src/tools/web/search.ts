// The `web_search` tool: one for all providers; which one answers is a setting.
import type { ToolSettings } from '../../../config/schema.ts';
import { fail, success, type Tool, type ToolContext, type ToolResult } from '../../ports/tool.ts';
import { PROVIDERS, type SearchResult } from './providers.ts';

export type SearchSettings = ToolSettings['web_search'];

const MAX_SNIPPET_CHARS = 600;
const MAX_ANSWER_BYTES = 2_000_000;

/** What the settings lack; undefined: it can search. */
export function searchProblem({ provider, api_key, base_url }: SearchSettings): string | undefined {
  if (provider === 'none') return 'tools.web_search.provider is none: name tavily, brave, bocha or searxng';
  const { needsKey, home } = PROVIDERS[provider];
  if (needsKey && api_key === '') return `tools.web_search.api_key is empty: ${provider} needs one`;
  return home === '' && base_url === ''
    ? `tools.web_search.base_url is empty: say where ${provider} is`
    : undefined;
}

export function createWebSearchTool(settings: SearchSettings): Tool {
  return {
    name: 'web_search',
    description:
      'Searches the web. Returns titles, addresses and extracts; read a page with web_fetch if it is there.',
    parameters: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 400 },
        count: { type: 'integer', minimum: 1, maximum: settings.max_results },
      },
      required: ['query'],
      additionalProperties: false,
    },
    execution: 'parallel',
    // Nothing changes by asking; it may be counted twice by the provider.
    idempotent: true,
    timeoutMs: settings.timeout_ms + 1_000,
    execute: (args, context) =>
      search(settings, String(args['query']), Number(args['count'] ?? settings.max_results), context),
  };
}

async function search(
  settings: SearchSettings,
  query: string,
  count: number,
  context: ToolContext,
): Promise<ToolResult> {
  const problem = searchProblem(settings);
  if (problem !== undefined || settings.provider === 'none')
    return fail(`Searching is not set up: ${problem}.`);
  const provider = PROVIDERS[settings.provider];
  const key = settings.api_key;
  const base = (settings.base_url || provider.home).replace(/\/+$/u, '');
  const limit = AbortSignal.timeout(settings.timeout_ms);
  try {
    const { url, init } = provider.request({ query, count, key, base });
    const signal = AbortSignal.any([context.signal, limit]);
    // A key must not follow to another address.
    const response = await fetch(url, { ...init, signal, redirect: 'error' });
    if (!response.ok) {
      await response.body?.cancel();
      return fail(explain(settings.provider, response.status));
    }
    const results = provider.results(JSON.parse(await textUpTo(response, MAX_ANSWER_BYTES)));
    if (!results) return fail(`The search failed: ${settings.provider} answered with an error.`);
    const found = results.filter(({ url: address }) => /^https?:/u.test(address)).slice(0, count);
    return success(found.length === 0 ? 'Nothing was found.' : found.map(shown).join('\n\n'), {
      display: `"${query}": ${found.length} results`,
    });
  } catch (error) {
    context.signal.throwIfAborted();
    if (limit.aborted) return fail(`The search took longer than ${settings.timeout_ms / 1000} seconds.`);
    // Of the error itself nothing is shown: it may quote the request, and with it the key.
    const kind = error instanceof SyntaxError ? 'its answer is not JSON' : 'it does not answer';
    return fail(`The search failed: ${settings.provider} can't be used now (${kind}).`);
  }
}

function explain(provider: keyof typeof PROVIDERS, status: number): string {
  const meaning = PROVIDERS[provider].statuses?.[status];
  if (meaning !== undefined) return `The search failed: ${provider} answered with ${status}: ${meaning}.`;
  if (status === 401 || status === 403)
    return `The search failed: ${provider} does not accept the key (${status}). Only the operator can change that.`;
  if (status === 429) return `The search failed: ${provider} allows no more searches for now (429).`;
  return `The search failed: ${provider} answered with status ${status}.`;
}

async function textUpTo(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxBytes) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function shown({ title, url, snippet, date }: SearchResult, index: number): string {
  const short = snippet.length > MAX_SNIPPET_CHARS ? `${snippet.slice(0, MAX_SNIPPET_CHARS)}…` : snippet;
  return `${index + 1}. ${title || url}${date === undefined ? '' : ` (${date})`}\n${url}\n${short}`.trimEnd();
}
