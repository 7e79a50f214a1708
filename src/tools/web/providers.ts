// Web search APIs, as their documentation has them: how to ask, and where the results are in the answer.
//   Tavily   https://docs.tavily.com/documentation/api-reference/endpoint/search
//   Brave    https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
//   Bocha    https://open.bochaai.com (Web Search API)
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
  /** What is not as expected is left out. */
  results(body: unknown): SearchResult[];
}

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
      list(body, 'results').map((item) => result(item, 'title', 'content', 'published_date')),
  },
  brave: {
    home: 'https://api.search.brave.com/res/v1',
    needsKey: true,
    request: ({ query, count, key, base }) => ({
      url: `${base}/web/search?${new URLSearchParams({ q: query, count: String(count) }).toString()}`,
      init: { headers: { accept: 'application/json', 'x-subscription-token': key } },
    }),
    results: (body) =>
      list(body, 'web', 'results').map((item) => result(item, 'title', 'description', 'age')),
  },
  bocha: {
    home: 'https://api.bochaai.com/v1',
    needsKey: true,
    request: ({ query, count, key, base }) => ({
      url: `${base}/web-search`,
      init: {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${key}` },
        body: JSON.stringify({ query, count, summary: true }),
      },
    }),
    results: (body) =>
      list(body, 'data', 'webPages', 'value').map((item) => {
        const { summary } = item;
        const longer = typeof summary === 'string' && summary !== '';
        return result(item, 'name', longer ? 'summary' : 'snippet', 'datePublished');
      }),
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
    results: (body) => list(body, 'results').map((item) => result(item, 'title', 'content', 'publishedDate')),
  },
};

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;

function list(body: unknown, ...path: string[]): Json[] {
  let value = body;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function result(item: Json, title: string, snippet: string, date: string): SearchResult {
  const text = (key: string) => (typeof item[key] === 'string' ? plain(item[key]) : '');
  const when = text(date);
  return {
    title: text(title),
    url: text('url'),
    snippet: text(snippet),
    ...(when === '' ? {} : { date: when }),
  };
}

/** Brave marks the words that were found with tags. */
const plain = (text: string): string =>
  text
    .replaceAll(/<\/?(?:strong|b|em)>/gu, '')
    .replaceAll(/\s+/gu, ' ')
    .trim();
