// The whole path: the real server driven from a second process, its model in a third, on both backends.
// One message is answered by one run with one tool round: model → now → model.
import type { Report, Table } from './lib/report.ts';
import { markdown } from './lib/report.ts';
import { writeBlock } from './lib/readme.ts';
import { figure } from './lib/stats.ts';
import { type Backend, measure, type Plan, type Sequential, type ServerFigures } from './server-measure.ts';

const FULL: Plan = { starts: 5, warmUp: 1000, rounds: 3, sequential: 300, atOnce: 2400, bareCalls: 1000 };
const QUICK: Plan = { starts: 1, warmUp: 5, rounds: 1, sequential: 10, atOnce: 40, bareCalls: 20 };

interface Row {
  en: string;
  zh: string;
  cell(figures: ServerFigures): string;
}

const spread = (one: Sequential): string => `${figure(one.p50Ms, 1)} / ${figure(one.p95Ms, 1)} ms`;
const cpu = (one: Sequential, bare: number): string =>
  `${figure(one.cpuMs, 2)} ms (${figure(one.cpuMs / bare, 1)} ×)`;
const sumOf = (counts: Record<string, number>): number => Object.values(counts).reduce((a, b) => a + b, 0);

const rowsOf = (messages: number): Row[] => [
  { en: '`npm start` to ready', zh: '`npm start` 到就绪', cell: (f) => `${figure(f.readyMs)} ms` },
  { en: 'Memory (RSS), idle', zh: '内存（RSS），空闲', cell: (f) => `${figure(f.rssIdleMb)} MB` },
  {
    en: `Memory (RSS) after ${figure(messages)} messages`,
    zh: `内存（RSS），处理 ${figure(messages)} 条消息后`,
    cell: (f) => `${figure(f.rssAfterMb)} MB`,
  },
  {
    en: 'Messages a second, 20 conversations at once',
    zh: '每秒消息数（20 个会话同时）',
    cell: (f) => figure(f.perSecond),
  },
  {
    en: 'Time added to a message with one tool call, p50 / p95',
    zh: '每条消息增加的时间（含一次工具调用），p50 / p95',
    cell: (f) => spread(f.withTool),
  },
  {
    en: 'The same without a tool call',
    zh: '同上，不含工具调用',
    cell: (f) => spread(f.plain),
  },
  {
    en: 'CPU a message with one tool call (× one bare streaming call of the SDK)',
    zh: '每条消息的 CPU（含一次工具调用；× SDK 单次流式调用）',
    cell: (f) => cpu(f.withTool, f.bareCpuMs),
  },
  {
    en: 'The same without a tool call',
    zh: '同上，不含工具调用',
    cell: (f) => cpu(f.plain, f.bareCpuMs),
  },
  {
    en: 'Redis commands a message with one tool call (with those inside scripts)',
    zh: '每条消息的 Redis 命令数（含一次工具调用；括号内含脚本内部命令）',
    cell: (f) =>
      f.commands === undefined
        ? '0'
        : `${figure(sumOf(f.commands.sent), 1)} (${figure(sumOf(f.commands.sent) + sumOf(f.commands.inside))})`,
  },
  {
    en: 'First request to the model',
    zh: '发给模型的首个请求',
    cell: (f) => `${figure(f.firstRequestBytes / 1000, 1)} kB`,
  },
];

const HEAD = {
  en: ['', 'embedded (SQLite)', 'Redis'],
  zh: ['', '内置存储（SQLite）', 'Redis'],
};
const NOTES = {
  en: [
    'The server, a model server that answers at once, and the load generator are separate processes on the same machine; Redis writes its append-only file with `appendfsync always`, SQLite with `synchronous=FULL`.',
    'Time added: from sending the message to having its answer, less the time that its model calls took inside the model server.',
    'Medians of several rounds on a small shared machine: compare the ratios, not the figures.',
  ],
  zh: [
    '服务器、立即作答的模型服务器与压测程序是同一台机器上的不同进程；Redis 使用 `appendfsync always`，SQLite 使用 `synchronous=FULL`。',
    '增加的时间：从发出消息到收到回答，减去模型调用在模型服务器内部所用的时间。',
    '在共享的小机器上取多轮的中位数：请比较比例，而不是绝对数值。',
  ],
};

function tableOf(all: ServerFigures[], language: 'en' | 'zh'): Table {
  const rows = rowsOf(all[0]?.messages ?? 0);
  return {
    columns: HEAD[language],
    rows: rows.map((row) => [row[language]].concat(all.map((figures) => row.cell(figures)))),
  };
}

const commandLines = (counts: Record<string, number>): string[] =>
  Object.entries(counts)
    .filter(([, count]) => count >= 0.05)
    .map(([name, count]) => `${figure(count, 2).padStart(8)}  ${name}`);

function commandTable(commands: ServerFigures['commands']): string[] {
  if (commands === undefined) return [];
  return [
    '',
    'Redis commands a message, sent:',
    ...commandLines(commands.sent),
    'inside scripts:',
    ...commandLines(commands.inside),
  ];
}

export async function benchServer(options: { quick: boolean; write: boolean }): Promise<Report> {
  const plan = options.quick ? QUICK : FULL;
  const backends: Backend[] = ['embedded', 'redis'];
  const all: ServerFigures[] = [];
  for (const backend of backends) all.push(await measure(backend, plan));
  if (options.write) {
    const block = (language: 'en' | 'zh'): string =>
      `${markdown(tableOf(all, language))}\n\n${NOTES[language].join(language === 'en' ? ' ' : '')}`;
    await writeBlock('README.md', block('en'));
    await writeBlock('README.zh-CN.md', block('zh'));
  }
  return {
    name: 'server',
    title: 'Server: one message is one run with one tool round (model → now → model)',
    table: tableOf(all, 'en'),
    notes: [...NOTES.en, ...commandTable(all[1]?.commands)],
    data: all,
  };
}
