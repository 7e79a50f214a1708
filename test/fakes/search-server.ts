// Web search APIs on a loopback port, as strict as their documentation (read in November 2026): a request that it does
// not allow is refused, and remembered with the reason. Some queries ask for its documented errors; `nothing` finds nothing.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';

export type SearchApi = 'tavily' | 'brave' | 'bocha' | 'searxng';

interface Asked {
  method: string;
  headers: IncomingHttpHeaders;
  /** Of a GET: the query string; of a POST: the body. */
  params: Record<string, unknown>;
}

interface Answer {
  status: number;
  body: unknown;
}

interface Api {
  path: string;
  /** The date of the first result, as it is shown. */
  date: string;
  /** Queries that are answered with an error → what the user is told. */
  told: Record<string, RegExp>;
  /** Why the request is not as documented; undefined: it is. */
  refuse(asked: Asked): string | undefined;
  /** False: the key is not the right one. */
  knows(headers: IncomingHttpHeaders, key: string): boolean;
  badKey(key: string): Answer;
  error(query: string, key: string): Answer | undefined;
  found(query: string, results: readonly Found[]): unknown;
}

interface Found {
  title: string;
  url: string;
  text: string;
  dated: boolean;
}

const RESULTS: Found[] = [
  { title: "Tom & Jerry's <first>", url: 'https://a.example/1', text: 'about one', dated: true },
  { title: 'Second', url: 'https://a.example/2', text: 'about "two"', dated: false },
  { title: '', url: 'https://a.example/3', text: '', dated: false },
  { title: 'Fourth', url: 'https://a.example/4', text: 'about four', dated: false },
  { title: 'Not a page', url: 'javascript:alert(1)', text: '', dated: false },
];

const bearer = (headers: IncomingHttpHeaders, key: string): boolean =>
  headers.authorization === `Bearer ${key}`;

/** The first rule that is broken. */
const broken = (rules: Record<string, boolean>): string | undefined =>
  Object.entries(rules).find(([, kept]) => !kept)?.[0];

const only = (params: Record<string, unknown>, allowed: string): boolean =>
  Object.keys(params).every((key) => allowed.split(' ').includes(key));

const within = (value: unknown, low: number, high: number): boolean =>
  Number.isInteger(value) && Number(value) >= low && Number(value) <= high;

const DATE = '2026-10-02T08:18:30';

export const SEARCH_APIS: Record<SearchApi, Api> = {
  tavily: {
    path: '/search',
    date: DATE,
    told: {
      'too often': /no more searches for now/,
      'plan used up': /432: its plan's limit/,
      'no credit': /433: its plan's limit/,
    },
    refuse: ({ method, headers, params }) =>
      broken({
        POST: method === 'POST',
        JSON: headers['content-type'] === 'application/json',
        'a query': typeof params['query'] === 'string',
        'max_results from 0 to 20': within(params['max_results'], 0, 20),
        'known fields': only(
          params,
          'query search_depth chunks_per_source max_results topic time_range start_date end_date include_answer include_raw_content include_images include_image_descriptions include_favicon include_domains exclude_domains country auto_parameters include_usage',
        ),
      }),
    knows: bearer,
    badKey: (key) => ({
      status: 401,
      body: { detail: { error: `Unauthorized: missing or invalid API key. ${key}` } },
    }),
    error: (query, key) =>
      query === 'too often'
        ? {
            status: 429,
            body: { detail: { error: `Your request has been blocked due to excessive requests. ${key}` } },
          }
        : query === 'plan used up'
          ? {
              status: 432,
              body: { detail: { error: `This request exceeds your plan's set usage limit. ${key}` } },
            }
          : query === 'no credit'
            ? {
                status: 433,
                body: { detail: { error: `This request exceeds the pay-as-you-go limit. ${key}` } },
              }
            : undefined,
    found: (query, results) => ({
      query,
      answer: null,
      follow_up_questions: null,
      images: [],
      results: results.map(({ title, url, text, dated }) => ({
        title,
        url,
        content: text,
        score: 0.81025416,
        raw_content: null,
        ...(dated ? { published_date: DATE } : {}),
      })),
      response_time: 1.67,
      request_id: '123e4567-e89b-12d3-a456-426614174111',
    }),
  },
  brave: {
    path: '/web/search',
    date: 'October 2, 2026',
    told: { 'too often': /no more searches for now/, 'plan used up': /402: its plan's limit/ },
    refuse: ({ method, headers, params }) =>
      broken({
        'GET or POST': method === 'GET',
        JSON: headers.accept === 'application/json',
        'a query of up to 400 characters': /^[^]{1,400}$/u.test(String(params['q'])),
        'count from 1 to 20': within(Number(params['count'] ?? 20), 1, 20),
        'text_decorations is a boolean': [undefined, 'true', 'false', '0', '1'].includes(
          params['text_decorations'] as string | undefined,
        ),
        'known parameters': only(
          params,
          'q country search_lang ui_lang count offset safesearch freshness text_decorations spellcheck result_filter goggles units extra_snippets summary',
        ),
      }),
    knows: (headers, key) => headers['x-subscription-token'] === key,
    badKey: (key) => ({
      status: 422,
      body: {
        type: 'ErrorResponse',
        error: {
          id: '5d832250-9396-4f6e-b84a-2a1fe524cd7d',
          status: 422,
          code: 'SUBSCRIPTION_TOKEN_INVALID',
          detail: `The provided subscription token is invalid. ${key}`,
          meta: { component: 'authentication' },
        },
        time: 1_663_072_993,
      },
    }),
    error: (query, key) =>
      query === 'too often'
        ? {
            status: 429,
            body: { type: 'ErrorResponse', error: { status: 429, code: 'RATE_LIMITED', detail: key } },
          }
        : query === 'plan used up'
          ? {
              status: 402,
              body: {
                type: 'ErrorResponse',
                error: { status: 402, code: 'USAGE_LIMIT_EXCEEDED', detail: key },
              },
            }
          : undefined,
    found: (query, results) => ({
      type: 'search',
      query: { original: query, show_strict_warning: false, more_results_available: false },
      mixed: { type: 'mixed', main: [], top: [], side: [] },
      // Without results the part is missing.
      ...(results.length === 0
        ? {}
        : {
            web: {
              type: 'search',
              family_friendly: true,
              results: results.map(({ title, url, text, dated }) => ({
                title: escaped(title),
                url,
                is_source_local: false,
                is_source_both: false,
                description: escaped(text).replace('one', '<strong>one</strong>'),
                language: 'en',
                family_friendly: true,
                type: 'search_result',
                subtype: 'generic',
                meta_url: {
                  scheme: 'https',
                  netloc: 'a.example',
                  hostname: 'a.example',
                  favicon: '',
                  path: '',
                },
                ...(dated ? { age: 'October 2, 2026', page_age: DATE } : {}),
              })),
            },
          }),
    }),
  },
  bocha: {
    path: '/web-search',
    date: `${DATE}Z`,
    told: {
      'too often': /no more searches for now/,
      'no credit': /403: the key is not accepted, or its account is empty/,
      'an error': /answered with an error/,
    },
    refuse: ({ method, headers, params }) =>
      broken({
        POST: method === 'POST',
        JSON: headers['content-type'] === 'application/json',
        'a query': typeof params['query'] === 'string',
        'count from 1 to 50': within(params['count'] ?? 10, 1, 50),
        'summary is a boolean': typeof (params['summary'] ?? false) === 'boolean',
        'known fields': only(params, 'query freshness summary include exclude count page'),
      }),
    knows: bearer,
    badKey: (key) => ({
      status: 401,
      body: { code: '401', message: `Invalid API KEY ${key}`, log_id: 'd71841ad20095f61' },
    }),
    error: (query, key) =>
      query === 'too often'
        ? {
            status: 429,
            body: { code: '429', message: `You have reached the request limit ${key}`, log_id: 'x' },
          }
        : query === 'no credit'
          ? {
              status: 403,
              body: { code: '403', message: `You do not have enough money ${key}`, log_id: 'x' },
            }
          : query === 'an error'
            ? { status: 200, body: { code: 500, msg: key, log_id: 'x', data: null } }
            : undefined,
    found: (query, results) => ({
      code: 200,
      log_id: 'd71841ad20095f61',
      msg: null,
      data: {
        _type: 'SearchResponse',
        queryContext: { originalQuery: query },
        webPages: {
          webSearchUrl: '',
          totalEstimatedMatches: results.length,
          value: results.map(({ title, url, text, dated }, n) => ({
            id: null,
            name: title,
            url,
            displayUrl: url,
            snippet: n === 0 ? 'about' : text,
            ...(n === 0 ? { summary: text } : { summary: '' }),
            siteName: 'a.example',
            siteIcon: '',
            dateLastCrawled: dated ? `${DATE}Z` : null,
            cachedPageUrl: null,
            language: null,
            isFamilyFriendly: null,
            isNavigational: null,
          })),
          someResultsRemoved: true,
        },
        images: { id: null, readLink: null, webSearchUrl: null, value: [], isFamilyFriendly: null },
        videos: null,
      },
    }),
  },
  searxng: {
    path: '/search',
    date: DATE,
    told: { 'too often': /no more searches for now/, 'no JSON': /403: it does not answer in JSON/ },
    refuse: ({ method, params }) =>
      broken({
        'GET or POST': method === 'GET',
        'a query': params['q'] !== undefined && params['q'] !== '',
        'a format': ['json', 'csv', 'rss'].includes(String(params['format'])),
        'known parameters': only(
          params,
          'q categories engines language pageno time_range format results_on_new_tab image_proxy autocomplete safesearch theme enabled_plugins disabled_plugins enabled_engines disabled_engines',
        ),
      }),
    // It has none of its own; a proxy before it may.
    knows: () => true,
    badKey: () => ({ status: 401, body: '' }),
    error: (query) =>
      query === 'too often'
        ? { status: 429, body: 'Too Many Requests' }
        : query === 'no JSON'
          ? { status: 403, body: '<!doctype html><title>403 Forbidden</title>' }
          : undefined,
    found: (query, results) => ({
      query,
      number_of_results: 0,
      results: results.map(({ title, url, text, dated }) => ({
        url,
        title,
        content: text,
        publishedDate: dated ? DATE : null,
        thumbnail: null,
        engine: 'bing',
        template: 'default.html',
        parsed_url: ['https', 'a.example', '/', '', '', ''],
        img_src: '',
        priority: '',
        engines: ['bing'],
        positions: [1],
        score: 1,
        category: 'general',
      })),
      answers: [],
      corrections: [],
      infoboxes: [],
      suggestions: [],
      unresponsive_engines: [['google', 'timeout']],
    }),
  },
};

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#x27;');

export interface SearchServer {
  url: string;
  /** `refused`: in what way a request was not as documented. */
  requests: { target: string; refused: string | undefined }[];
  close(): Promise<void>;
}

export async function startSearchServer(name: SearchApi, key: string): Promise<SearchServer> {
  const api = SEARCH_APIS[name];
  const requests: SearchServer['requests'] = [];

  function answer(target: URL, asked: Asked): Answer {
    const refused = target.pathname === api.path ? api.refuse(asked) : `a path of ${api.path}`;
    requests.push({ target: target.href, refused });
    if (refused !== undefined) return { status: 400, body: { error: `the API wants ${refused}` } };
    if (!api.knows(asked.headers, key)) return api.badKey(JSON.stringify(asked.headers));
    const query = String(asked.params['query'] ?? asked.params['q']);
    return (
      api.error(query, key) ?? {
        status: 200,
        body: api.found(query, query === 'nothing' ? [] : RESULTS),
      }
    );
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const target = new URL(request.url ?? '/', 'http://search.test');
      const { method = '', headers } = request;
      const text = Buffer.concat(chunks).toString();
      const params: Record<string, unknown> =
        method === 'POST'
          ? (JSON.parse(text) as Record<string, unknown>)
          : Object.fromEntries(target.searchParams);
      const { status, body } = answer(target, { method, headers, params });
      const isText = typeof body === 'string';
      response.writeHead(status, { 'content-type': isText ? 'text/html' : 'application/json' });
      response.end(isText ? body : JSON.stringify(body));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
