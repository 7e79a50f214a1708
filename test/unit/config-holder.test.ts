// The running configuration: what is live applies to the next run, what isn't is named, and a broken file changes nothing.
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createConfigHolder, watchConfig, type ConfigHolder } from '../../config/holder.ts';
import type { Logger } from '../../src/ports/log.ts';

let cwd: string;
let stop: (() => void) | undefined;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'lanekeeper-config-'));
  await mkdir(join(cwd, 'config'));
});
afterEach(async () => {
  stop?.();
  stop = undefined;
  await rm(cwd, { recursive: true, force: true });
});

const file = () => join(cwd, 'config', 'local.yaml');
const write = (text: string) => writeFile(file(), text);
const hold = () => createConfigHolder({ env: {}, cwd });

describe('reload', () => {
  it('takes over what is live and tells who listens', async () => {
    const holder = hold();
    const seen: [number, number][] = [];
    const off = holder.onChange((next, previous) =>
      seen.push([previous.agent.max_steps, next.agent.max_steps]),
    );
    await write('agent: { max_steps: 7, retry: { attempts: 0 } }');
    expect(holder.reload()).toEqual({
      applied: ['agent.max_steps', 'agent.retry.attempts'],
      needRestart: [],
    });
    expect(holder.current.agent).toMatchObject({ max_steps: 7, retry: { attempts: 0, base_ms: 500 } });
    off();
    await write('agent: { max_steps: 8 }');
    holder.reload();
    expect(seen).toEqual([[100, 7]]);
  });

  it('takes over the rights of people: rules, admins, access', async () => {
    const people = (admins: string, deny: string) =>
      write(
        `channels: { webhook: { admins: ${admins}, access: { deny: ${deny} }, group: { trigger: always } } }`,
      );
    await people('[ann]', '[]');
    const holder = hold();
    await people('[]', '[bob]');
    expect(holder.reload()).toEqual({
      applied: ['channels.webhook.access.deny', 'channels.webhook.admins'],
      needRestart: [],
    });
    expect(holder.current.channels['webhook']).toMatchObject({
      admins: [],
      access: { deny: ['bob'] },
      group: { trigger: 'always' },
    });
    await write('channels: { other: { type: webhook, admins: [eve] }, webhook: { enabled: false } }');
    expect(holder.reload().needRestart).toContain('channels.other');
    expect(holder.current.channels).not.toHaveProperty('other');
  });

  it('names what needs a restart and leaves it as it was, and the secrets in it unsaid', async () => {
    const holder = hold();
    await write('server: { port: 4000, admin_token: do-not-show }\nagent: { max_steps: 7 }');
    const result = holder.reload();
    expect(result).toEqual({
      applied: ['agent.max_steps'],
      needRestart: ['server.port', 'server.admin_token'],
    });
    expect(holder.current.server).toMatchObject({ port: 3000, admin_token: '' });
    expect(holder.current.agent.max_steps).toBe(7);
  });

  it('throws on a broken file and keeps what it had', async () => {
    await write('agent: { max_steps: 7 }');
    const holder = hold();
    await write('agent: { max_steps: none, max_batch: 3 }');
    expect(() => holder.reload()).toThrow('agent.max_steps');
    expect(holder.current.agent).toMatchObject({ max_steps: 7, max_batch: 20 });
  });

  it('goes back to the defaults when the file is deleted', async () => {
    await write('agent: { max_steps: 7 }');
    const holder = hold();
    await rm(file());
    holder.reload();
    expect(holder.current.agent.max_steps).toBe(100);
  });
});

interface Line {
  level: string;
  fields: Record<string, unknown>;
  message: string;
}

function recordingLog(): { log: Logger; lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, fields, message });
  };
  const log: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return { log, lines };
}

const steps = (holder: ConfigHolder, expected: number) =>
  vi.waitFor(() => expect(holder.current.agent.max_steps).toBe(expected), { timeout: 5_000 });

describe('watching', () => {
  it('sees a file that is created, written, and replaced as editors do', async () => {
    const holder = hold();
    stop = watchConfig(holder, recordingLog().log);
    await write('agent: { max_steps: 7 }');
    await steps(holder, 7);
    await write('agent: { max_steps: 8 }');
    await steps(holder, 8);
    await writeFile(`${file()}.tmp`, 'agent: { max_steps: 9 }');
    await rename(`${file()}.tmp`, file());
    await steps(holder, 9);
  });

  it('reads again on SIGHUP', async () => {
    await rm(join(cwd, 'config'), { recursive: true });
    const holder = hold();
    const { log, lines } = recordingLog();
    stop = watchConfig(holder, log);
    // Made after the start, so no watcher is on it.
    await mkdir(join(cwd, 'config'));
    await write('agent: { max_steps: 7 }');
    process.kill(process.pid, 'SIGHUP');
    await steps(holder, 7);
    expect(lines).toMatchObject([{ level: 'info', fields: { keys: ['agent.max_steps'] } }]);
  });

  it('reports a broken file, keeps the old settings, and takes the corrected one', async () => {
    const holder = hold();
    const { log, lines } = recordingLog();
    stop = watchConfig(holder, log);
    await write('agent: { max_steps: none }');
    await vi.waitFor(() => expect(lines).toMatchObject([{ level: 'error' }]), { timeout: 5_000 });
    expect(holder.current.agent.max_steps).toBe(100);
    await write('agent: { max_steps: 7 }');
    await steps(holder, 7);
  });

  it('warns once about what needs a restart', async () => {
    const holder = hold();
    const { log, lines } = recordingLog();
    stop = watchConfig(holder, log);
    await write('server: { port: 4000 }');
    await vi.waitFor(() => expect(lines).toHaveLength(1), { timeout: 5_000 });
    await write('server: { port: 4000 }\nagent: { max_steps: 7 }');
    await steps(holder, 7);
    expect(lines.map(({ level, fields }) => [level, fields['keys']])).toEqual([
      ['warn', ['server.port']],
      ['info', ['agent.max_steps']],
    ]);
  });

  it('leaves no signal listener and no watcher behind', async () => {
    const before = process.listenerCount('SIGHUP');
    const holder = hold();
    watchConfig(holder, recordingLog().log)();
    expect(process.listenerCount('SIGHUP')).toBe(before);
    await write('agent: { max_steps: 7 }');
    await new Promise((resolve) => setImmediate(resolve));
    expect(holder.current.agent.max_steps).toBe(100);
  });
});
