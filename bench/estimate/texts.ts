// What the estimate is tried on: five kinds of text as they come up in chats and in the results of tools, each cut into
// messages. Taken from this repository where it has them, so that everybody measures the same.
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

async function readAll(patterns: string[]): Promise<string> {
  const paths: string[] = [];
  for await (const path of glob(patterns, { cwd: root })) paths.push(path);
  const texts = await Promise.all(paths.sort().map((path) => read(path)));
  return texts.join('\n');
}

/** Prose only: no tables, no code. */
const prose = (markdown: string): string =>
  markdown
    .replaceAll(/^```[\s\S]*?^```$/gmu, '')
    .split('\n')
    .filter((line) => !/^\s*(?:\||#|<)/u.test(line))
    .join('\n');

/** Lines of a web server and of this one, with the times, addresses, ids and figures that logs are made of. */
function logs(lines: number): string {
  let state = 42;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => next(16).toString(16)).join('');
  const pick = (items: string[]): string => items[next(items.length)]!;
  return Array.from({ length: lines }, (_, n) => {
    const at = new Date(Date.UTC(2026, 10, 30, 8) + n * 733 + next(500)).toISOString();
    const path = pick(['/api/runs', '/webhook/feishu', '/healthz', `/api/conversations/web:${hex(8)}`]);
    return next(2) === 0
      ? `${next(223)}.${next(256)}.${next(256)}.${next(256)} - - [${at}] "GET ${path} HTTP/1.1" ${pick(['200', '202', '404', '503'])} ${next(90_000)} "-" "Mozilla/5.0 (X11; Linux x86_64)"`
      : `{"level":30,"time":"${at}","run":"${hex(8)}-${hex(4)}-${hex(4)}","conversation":"webhook:${hex(6)}","turns":${next(9)},"input":${next(20_000)},"output":${next(900)},"msg":"run committed"}`;
  }).join('\n');
}

/** Pieces of about `chars`, cut at line ends where there are any. */
function messagesOf(text: string, chars: number): string[] {
  const messages: string[] = [];
  let message = '';
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    message += `${line}\n`;
    if (message.length < chars) continue;
    messages.push(message.trimEnd());
    message = '';
  }
  return messages;
}

/** One message of each in turn, as long as all have any: people who talk, and tools that answer. */
function mixed(kinds: Record<string, string[]>): string[] {
  const lists = Object.values(kinds);
  const rounds = Math.min(...lists.map((list) => list.length));
  return Array.from({ length: rounds }, (_, n) => lists.map((list) => list[n]!)).flat();
}

/** Kind → messages. */
export async function readTexts(): Promise<Record<string, string[]>> {
  const [chinese, english, code, json] = await Promise.all([
    read('bench/estimate/chinese.txt'),
    readAll(['docs/*.md', 'CONTRIBUTING.md']),
    readAll(['src/agent/*.ts', 'src/models/*.ts']),
    readAll(['test/fixtures/llm/errors.json', 'test/fixtures/llm/tool-arguments.json', 'config/schema.json']),
  ]);
  const kinds = {
    Chinese: messagesOf(chinese, 60),
    English: messagesOf(prose(english), 600).slice(0, 60),
    code: messagesOf(code, 1_500).slice(0, 60),
    JSON: messagesOf(json, 1_500).slice(0, 60),
    logs: messagesOf(logs(300), 1_500),
  };
  return { ...kinds, mixed: mixed(kinds) };
}
