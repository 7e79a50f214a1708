// Web search APIs, as their documentation has them: how to ask, and where the results are in the answer.
//   Tavily   https://docs.tavily.com/documentation/api-reference/endpoint/search
//   Brave    https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
//   Bocha    https://open.bocha.cn (Web Search API)
//   SearXNG  https://docs.searxng.org/dev/search_api.html

export interface SearchResult {
  title: string;
  url: string;
  snippet: string;
  date?: string;
}

export interface SearchQuery {
  query: string;
  count: number;
  key: string;
  base: string;
}

export interface SearchProvider {
  /** Where its API is; empty: everybody has their own. */
  home: string;
  needsKey: boolean;
  request(query: SearchQuery): { url: string; init: RequestInit };
  /** What is not as expected is left out. Undefined: the answer says that the search failed. */
  results(body: unknown): SearchResult[] | undefined;
  /** What a status means here, beside what it means everywhere. */
  statuses?: Readonly<Record<number, string>>;
}

const LIMIT = "its plan's limit is reached. Only the operator can change that";

const json = { 'content-type': 'application/json', accept: 'application/json' };

export const PROVIDERS: Record<'tavily' | 'brave' | 'bocha' | 'searxng', SearchProvider> = {
  tavily: {
    home: 'https://api.tavily.com',
    needsKey: true,
    request: ({ query, count, key, base }) => ({
      url: `${base}/search`,
      init: {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${key}` },
        body: JSON.stringify({ query, max_results: count }),
      },
    }),
    results: (body) =>
      list(body, 'results').map((item) => result(item, ['title'], ['content'], ['published_date'])),
    statuses: { 432: LIMIT, 433: LIMIT },
  },
  brave: {
    home: 'https://api.search.brave.com/res/v1',
    needsKey: true,
    request: ({ query, count, key, base }) => ({
      url: `${base}/web/search?${new URLSearchParams({ q: query, count: String(count), text_decorations: 'false' }).toString()}`,
      init: { headers: { accept: 'application/json', 'x-subscription-token': key } },
    }),
    results: (body) =>
      list(body, 'web', 'results').map((item) =>
        result(item, ['title'], ['description'], ['age', 'page_age']),
      ),
    statuses: {
      422: 'it does not accept the key, or the query. The operator can look at the key',
      402: LIMIT,
    },
  },
  bocha: {
    home: 'https://api.bocha.cn/v1',
    needsKey: true,
    request: ({ query, count, key, base }) => ({
      url: `${base}/web-search`,
      init: {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${key}` },
        body: JSON.stringify({ query, count, summary: true }),
      },
    }),
    // Errors may come with status 200 and a code of their own; the date of the page is called that of its crawl.
    results: (body) =>
      isObject(body) && Number(body['code'] ?? 200) === 200
        ? list(body, 'data', 'webPages', 'value').map((item) =>
            result(item, ['name'], ['summary', 'snippet'], ['datePublished', 'dateLastCrawled']),
          )
        : undefined,
    statuses: { 403: 'the key is not accepted, or its account is empty. Only the operator can change that' },
  },
  searxng: {
    home: '',
    needsKey: false,
    request: ({ query, key, base }) => ({
      url: `${base}/search?${new URLSearchParams({ q: query, format: 'json' }).toString()}`,
      init: {
        headers: { accept: 'application/json', ...(key === '' ? {} : { authorization: `Bearer ${key}` }) },
      },
    }),
    results: (body) =>
      list(body, 'results').map((item) => result(item, ['title'], ['content'], ['publishedDate'])),
    statuses: { 403: 'it does not answer in JSON. The operator has to allow it there (search.formats)' },
  },
};

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;

function list(body: unknown, ...path: string[]): Json[] {
  let value = body;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Of each kind the first field that says something. */
function result(
  item: Json,
  titles: readonly string[],
  snippets: readonly string[],
  dates: readonly string[],
): SearchResult {
  const first = (keys: readonly string[]): string => {
    const texts = keys.map((key) => (typeof item[key] === 'string' ? plain(item[key]) : ''));
    return texts.find((text) => text !== '') ?? '';
  };
  const url = typeof item['url'] === 'string' ? item['url'] : '';
  const date = first(dates);
  return { title: first(titles), url, snippet: first(snippets), ...(date === '' ? {} : { date }) };
}

const ENTITIES = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
  ['nbsp', ' '],
]);

/** Some providers mark the words that were found, and write the rest as HTML. */
const plain = (text: string): string =>
  text
    .replaceAll(/<\/?(?:strong|b|em|mark)>/gu, '')
    .replaceAll(/&(?:#x([\da-f]{1,6})|#(\d{1,7})|([a-z]{2,6}));/giu, (whole, hex, decimal, name) => {
      if (name !== undefined) return ENTITIES.get(String(name)) ?? whole;
      const code = hex === undefined ? Number(decimal) : Number.parseInt(String(hex), 16);
      return code > 0 && code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
    })
    .replaceAll(/\s+/gu, ' ')
    .trim();
