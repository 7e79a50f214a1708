// The linter's rules: un-awaited promises, import directions, each SDK in its own place, process.env in one file.
// test/unit/scripts-lint.test.ts proves that each kind of mistake is caught.
import { defineConfig, type OxlintOverride } from 'oxlint';

/** domain ← ports ← MIDDLE ← lane, http ← the files in src/. Siblings don't import each other. */
const BASE = ['domain', 'ports', 'net', 'child', 'time'];
const CHANNELS = ['web', 'webhook', 'feishu', 'wechat', 'weixin'];
const MIDDLE = [
  'inbox',
  'agent',
  'models',
  'tools',
  'delivery',
  'media',
  'telemetry',
  'redis',
  'sqlite',
  'shared',
  ...CHANNELS,
];
const TOP = ['lane', 'http', 'storage', 'channels', 'doctor'];
const ROOT = ['main', 'serve', 'compose', 'backend', 'system-clock'].map((name) => `${name}\\.ts`);
const OUTSIDE = ['bench', 'test', 'scripts'];
const AREAS = [...BASE, ...MIDDLE, ...TOP, ...ROOT, ...OUTSIDE];

/** Libraries that live in one place, so that replacing one touches one place. */
const SDKS = [
  '@anthropic-ai/sdk',
  'openai',
  '@larksuiteoapi/node-sdk',
  'bullmq',
  'ioredis',
  'node:sqlite',
  'fastify',
  'fastify-type-provider-zod',
].concat(['@fastify/[^/]+', 'pino', 'prom-client', 'yaml', 'marked', 'ipaddr\\.js', 'jsonrepair', 'ajv']);
SDKS.push('wechaty', 'wechaty-puppet', 'file-box');
SDKS.push('@modelcontextprotocol/sdk', 'turndown', 'unpdf', 'mime', 'uqr');

const CHANNEL_SDKS: Record<string, string[]> = {
  web: ['marked'],
  feishu: ['@larksuiteoapi/node-sdk'],
  wechat: ['wechaty', 'wechaty-puppet', 'file-box'],
};

interface Place {
  files: string;
  /** Areas it may import, besides itself. */
  may: string[];
  /** SDKs at home here. */
  sdks?: string[];
}

const middle = (folder: string, sdks: string[] = [], more: string[] = []): Place => {
  const own = folder.split('/').at(-1) ?? '';
  return { files: `${folder}/**`, may: [...BASE, own, ...more], sdks };
};

// A later entry wins for a file that several match.
const PLACES: Place[] = [
  { files: 'src/domain/**', may: ['domain'] },
  { files: 'src/ports/**', may: ['domain', 'ports'] },
  { files: 'src/net/**', may: ['domain', 'net', 'time'], sdks: ['ipaddr\\.js'] },
  { files: 'src/child/**', may: ['child'] },
  { files: 'src/time/**', may: ['time'] },
  middle('src/inbox'),
  middle('src/agent', ['jsonrepair', 'ajv']),
  middle('src/models'),
  { ...middle('src/models', ['openai']), files: 'src/models/openai/**' },
  { ...middle('src/models', ['@anthropic-ai/sdk']), files: 'src/models/anthropic/**' },
  // Front matter of skills is YAML.
  middle('src/tools', ['yaml']),
  { ...middle('src/tools', ['@modelcontextprotocol/sdk']), files: 'src/tools/mcp/**' },
  { ...middle('src/tools', ['turndown', 'unpdf']), files: 'src/tools/web/**' },
  middle('src/delivery'),
  middle('src/media', ['mime']),
  middle('src/telemetry', ['pino', 'prom-client']),
  middle('src/storage/redis', ['bullmq', 'ioredis']),
  middle('src/storage/sqlite', ['node:sqlite']),
  middle('channels'),
  middle('channels/shared', ['marked', 'uqr']),
  ...CHANNELS.map((name) => middle(`channels/${name}`, CHANNEL_SDKS[name], ['shared'])),
  { files: 'src/lane/**', may: [...BASE, ...MIDDLE, 'lane'] },
  {
    files: 'src/http/**',
    may: [...BASE, ...MIDDLE, 'channels', 'http'],
    sdks: SDKS.filter((name) => name.includes('fastify')),
  },
  { files: 'src/{*.ts,doctor/**}', may: AREAS.filter((area) => !OUTSIDE.includes(area)) },
  { files: 'config/**', may: ['domain', 'ports'], sdks: ['yaml'] },
];

const directions = ({ files, may, sdks = [] }: Place): OxlintOverride => {
  const areas = AREAS.filter((area) => !may.includes(area));
  const foreign = SDKS.filter((name) => !sdks.includes(name));
  const atHome = files.startsWith('config') || files.startsWith('src/{');
  return {
    files: [files],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          paths: ['node:process', 'process'].map((name) => ({
            name,
            importNames: ['env'],
            message: 'Only config/load.ts reads the environment.',
          })),
          patterns: [
            {
              regex: `^(?:\\.\\./)+(?:src/|storage/|channels/)*(?:${areas.join('|')})(?:/|$)`,
              message: 'Imports go one way: see docs/decisions/0005-import-directions.md.',
            },
            { regex: `^(?:${foreign.join('|')})(?:/|$)`, message: 'This library has a place of its own.' },
            ...(atHome ? [] : CONFIG),
          ],
        },
      ],
    },
  };
};

/** Settings come as arguments; only their types are known everywhere. */
const CONFIG = [
  {
    regex: '^(?:\\.\\./)+config/schema\\.ts$',
    allowTypeImports: true,
    message: 'Take settings as arguments.',
  },
  // Anything but schema.ts; the engine has no look-ahead.
  { regex: '^(?:\\.\\./)+config/(?:[^s]|s[^c])', message: 'Take settings as arguments.' },
];

export default defineConfig({
  plugins: ['typescript', 'import', 'unicorn', 'oxc', 'promise', 'node'],
  categories: { correctness: 'error', suspicious: 'error', perf: 'error' },
  options: { typeAware: true },
  rules: {
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/no-explicit-any': 'error',
    // Types too: files that name each other's types can't be read one after the other.
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'node/no-process-env': 'error',
    'no-await-in-loop': 'off',
    'no-underscore-dangle': 'off',
    'unicorn/consistent-function-scoping': 'off',
    // `.then` for an effect is fine: what matters, a rejection left alone, is found by no-floating-promises.
    'promise/always-return': 'off',
    // About Express; Fastify awaits its handlers.
    'oxc/no-async-endpoint-handlers': 'off',
    // tsc has noImplicitReturns, which knows `undefined`.
    'typescript/consistent-return': 'off',
    'unicorn/no-array-sort': 'off',
    'unicorn/no-array-reverse': 'off',
    // Ports are object literals over closed-over state: no method of ours uses `this`.
    'typescript/unbound-method': 'off',
    // What we stored ourselves is not parsed again with a schema at each read.
    'typescript/no-unsafe-type-assertion': 'off',
  },
  overrides: [
    ...PLACES.map(directions),
    {
      files: ['config/load.ts', 'scripts/**', 'test/**', 'bench/**'],
      rules: { 'node/no-process-env': 'off' },
    },
  ],
  ignorePatterns: ['node_modules', 'data', 'test/fixtures'],
});
