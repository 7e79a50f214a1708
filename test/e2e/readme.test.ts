// The README's commands, run as they stand against a fresh server with the demo model.
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startServer, type ServerProcess } from '../fakes/server.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const blocks = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/```sh\n(.*?)```/gs)].map(
  ([, text]) => text ?? '',
);
const examples = blocks.filter((block) => block.includes('curl '));
const has = (program: string, argument: string) => spawnSync(program, [argument]).status === 0;

let folder: string;
let server: ServerProcess;
let secret: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-readme-'));
  // As the README makes it.
  const make = blocks
    .find((block) => block.includes('export WEBHOOK_SECRET'))
    ?.replace('npm start', 'printf %s "$WEBHOOK_SECRET"');
  secret = spawnSync('sh', ['-c', make ?? ''], { encoding: 'utf8' }).stdout;
  // Without ADMIN_TOKEN one is made at the first start, where the examples read it.
  server = await startServer({ dataDir: await makeData(), env: { ADMIN_TOKEN: '', WEBHOOK_SECRET: secret } });
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

async function makeData(): Promise<string> {
  await mkdir(join(folder, 'data'));
  return join(folder, 'data');
}

function runExample(script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const text = script
      .replaceAll('http://localhost:3000', server.url)
      .replaceAll('curl ', 'curl -sS --fail-with-body ');
    const env = { PATH: process.env['PATH'] ?? '', WEBHOOK_SECRET: secret };
    execFile('sh', ['-c', text], { cwd: folder, env }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stderr}${stdout}`));
      else resolve(stdout);
    });
  });
}

describe.skipIf(!has('curl', '--version') || !has('openssl', 'version'))(
  'the README (skipped where curl or openssl is missing)',
  () => {
    it('has a secret of the standard form', () => {
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
    });

    it('has three examples', () => {
      expect(examples).toHaveLength(3);
    });

    it.each(examples.map((example, index) => [index + 1, example] as const))(
      'example %i is answered',
      async (_index, example) => {
        const answer: unknown = JSON.parse(await runExample(example));
        const text = JSON.stringify(answer);
        if (example.includes('/v1/')) expect(answer).toMatchObject({ object: 'chat.completion' });
        else expect(answer).toMatchObject({ status: 'done', conversation: 'webhook:demo' });
        // The demo model called its tool.
        expect(text).toMatch(/Asia\/Tokyo|\d{1,2}:\d{2}/);
      },
    );

    it('a signature with another secret is refused', async () => {
      const signed = examples.find((example) => example.includes('webhook-signature')) ?? '';
      const forged = `WEBHOOK_SECRET=whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n${signed}`;
      await expect(runExample(forged)).rejects.toThrow('signature_invalid');
    });
  },
);
