// The `web_fetch` tool: a page that the model names, as text. Through the guard at every hop, so that nobody in a chat
// reaches what only this machine can reach.
import { constants, brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from 'node:zlib';
import type { ToolSettings } from '../../../config/schema.ts';
import { UrlRefused, type Guard, type GuardedResponse } from '../../net/guard.ts';
import { fail, success, type Tool, type ToolContext, type ToolResult } from '../../ports/tool.ts';
import { decodeText } from './charset.ts';
import { convert, type Converted } from './convert.ts';

export interface WebFetchOptions {
  settings: ToolSettings['web_fetch'];
  guard: Guard;
}

const MAX_REDIRECTS = 5;
const HEADERS = {
  'user-agent': 'Mozilla/5.0 (compatible; Lanekeeper)',
  accept: 'text/html, text/markdown, text/plain, application/pdf, application/json, */*;q=0.5',
  'accept-language': '*',
  'accept-encoding': 'identity',
};

export function createWebFetchTool({ settings, guard }: WebFetchOptions): Tool {
  return {
    name: 'web_fetch',
    description:
      'Reads a web page, PDF or text file and returns it as Markdown or plain text. Only pages without login; it runs no scripts.',
    parameters: {
      type: 'object',
      properties: {
        url: { type: 'string', description: 'http:// or https://' },
        from: {
          type: 'integer',
          minimum: 0,
          description: 'Character to start at, for the rest of a long page',
        },
      },
      required: ['url'],
      additionalProperties: false,
    },
    execution: 'parallel',
    // GET is safe, and so may be sent again (RFC 9110, 9.2.2).
    idempotent: true,
    timeoutMs: settings.timeout_ms + 1_000,
    execute: (args, context) => read(String(args['url']), Number(args['from'] ?? 0), context),
  };

  async function read(url: string, from: number, context: ToolContext): Promise<ToolResult> {
    const limit = AbortSignal.timeout(settings.timeout_ms);
    const signal = AbortSignal.any([context.signal, limit]);
    try {
      const { response, at } = await follow(url, signal);
      if (response.status < 200 || response.status > 299)
        return fail(`${at.host} answered with status ${response.status}.`);
      const cut = response.body.length >= settings.max_bytes;
      const page = await textOf(response, at, cut, signal);
      return typeof page === 'string' ? fail(page) : shown(page, at, from, cut);
    } catch (error) {
      context.signal.throwIfAborted();
      if (limit.aborted) return fail(`The page took longer than ${settings.timeout_ms / 1000} seconds.`);
      if (error instanceof UrlRefused) return fail(`This address is refused: ${error.message}.`);
      return fail(`The page can't be read: ${reasonOf(error)}.`);
    }
  }

  async function follow(first: string, signal: AbortSignal): Promise<{ response: GuardedResponse; at: URL }> {
    let url = first;
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const request = { method: 'GET', headers: HEADERS, maxBytes: settings.max_bytes, signal };
      const response = await guard.request(url, request);
      const at = new URL(url);
      const { location } = response.headers;
      if (location === undefined || ![301, 302, 303, 307, 308].includes(response.status))
        return { response, at };
      const next = URL.parse(location, at);
      if (!next) throw new UrlRefused('the page redirects to something that is not a URL');
      url = next.href;
    }
    throw new UrlRefused(`the page redirects more than ${MAX_REDIRECTS} times`);
  }

  /** A text says why there is none. */
  async function textOf(
    response: GuardedResponse,
    at: URL,
    cut: boolean,
    signal: AbortSignal,
  ): Promise<Converted | string> {
    const contentType = response.headers['content-type'] ?? '';
    const body = uncompressed(response, settings.max_bytes);
    if (typeof body === 'string') return body;
    const kind = kindOf(contentType, body);
    if (kind === 'pdf') {
      if (cut) return `The PDF is larger than ${settings.max_bytes} bytes.`;
      return convert({ kind, body }, signal);
    }
    if (kind === 'other')
      return `It is not text but ${contentType || 'of unknown type'}, ${body.length} bytes.`;
    const text = decodeText(body, contentType);
    return kind === 'html' ? convert({ kind, text, base: at.href }, signal) : { title: '', text };
  }

  function shown({ title, text }: Converted, at: URL, from: number, cut: boolean): ToolResult {
    const to = Math.min(text.length, from + settings.max_chars);
    const notes = [
      from > 0 || to < text.length ? `characters ${from} to ${to} of ${text.length}` : '',
      to < text.length ? `the rest with from: ${to}` : '',
      cut ? `cut after ${settings.max_bytes} bytes` : '',
    ].filter((note) => note !== '');
    const head = [title === '' ? '' : `# ${title}`, at.href, notes.length > 0 ? `(${notes.join('; ')})` : ''];
    const content = `${head.filter((line) => line !== '').join('\n')}\n\n${text.slice(from, to) || '(nothing)'}`;
    return success(content, { display: title === '' ? at.host : `${title} (${at.host})` });
  }
}

function kindOf(contentType: string, body: Buffer): 'html' | 'pdf' | 'text' | 'other' {
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const head = body.subarray(0, 512).toString('latin1');
  if (type === 'application/pdf' || head.startsWith('%PDF-')) return 'pdf';
  if (type === 'text/html' || type === 'application/xhtml+xml') return 'html';
  if (type.startsWith('text/') || /^application\/(?:.*\+)?(?:json|xml|yaml|javascript|x-ndjson)$/u.test(type))
    return 'text';
  if (type !== '' && type !== 'application/octet-stream') return 'other';
  if (/^\s*<(?:!doctype html|html|head)/iu.test(head)) return 'html';
  return head.includes('\0') ? 'other' : 'text';
}

/** Some servers compress what they were asked not to. A text says why it can't be read. */
function uncompressed({ headers, body }: GuardedResponse, maxOutputLength: number): Buffer | string {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  // A body that was cut ends early: what there is of it is read.
  const zlib = { maxOutputLength, finishFlush: constants.Z_SYNC_FLUSH };
  try {
    switch (encoding) {
      case '':
      case 'identity':
        return body;
      case 'gzip':
      case 'x-gzip':
        return gunzipSync(body, zlib);
      case 'deflate':
        return inflateSync(body, zlib);
      case 'br':
        return brotliDecompressSync(body, { maxOutputLength, finishFlush: constants.BROTLI_OPERATION_FLUSH });
      case 'zstd':
        return zstdDecompressSync(body, { maxOutputLength, finishFlush: constants.ZSTD_e_flush });
      default:
        return `It is compressed in a way that is not known: ${encoding.slice(0, 50)}.`;
    }
  } catch (error) {
    if (error instanceof RangeError) return `It is larger than ${maxOutputLength} bytes when it is unpacked.`;
    throw error;
  }
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
