// The Docker files say what the operator's guide promises. There is no engine where these tests run, so the files are
// read; where the compose client is installed it validates them as well.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '..', '..');
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

const serviceSchema = z.looseObject({
  image: z.string(),
  profiles: z.array(z.string()),
  command: z.array(z.string()).default([]),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  environment: z.record(z.string(), z.string()).default({}),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
  healthcheck: z.looseObject({ test: z.array(z.string()) }).optional(),
  stop_grace_period: z.string(),
  deploy: z.looseObject({ replicas: z.string() }).optional(),
});
const composeSchema = z.looseObject({
  services: z.record(z.string(), serviceSchema),
  volumes: z.record(z.string(), z.null()),
});

const compose = composeSchema.parse(parse(read('docker-compose.yml'), { merge: true }));
const inProfile = (profile: string) =>
  Object.entries(compose.services).filter(([, service]) => service.profiles.includes(profile));
const names = (profile: string) => inProfile(profile).map(([name]) => name);

describe('docker-compose.yml', () => {
  it('starts one server and Redis by default', () => {
    expect(read('.env')).toContain('COMPOSE_PROFILES=single');
    expect(names('single').sort()).toEqual(['redis', 'server']);
  });

  it('starts one gateway and several workers with the profile scale', () => {
    expect(names('scale').sort()).toEqual(['gateway', 'redis', 'worker']);
    const { gateway, worker } = compose.services;
    expect(gateway?.command).toEqual(['--role', 'gateway']);
    expect(worker?.command).toEqual(['--role', 'worker']);
    expect(worker?.deploy?.replicas).toBe('${WORKERS:-3}');
  });

  it.each(['single', 'scale'])('publishes one port of profile %s, on loopback only', (profile) => {
    const ports = inProfile(profile).flatMap(([, service]) => service.ports);
    expect(ports).toHaveLength(1);
    expect(ports[0]).toMatch(/^127\.0\.0\.1:/);
  });

  it('keeps everything in Redis on disk, and evicts nothing', () => {
    const { redis } = compose.services;
    const command = redis?.command.join(' ') ?? '';
    expect(command).toContain('--appendonly yes');
    expect(command).toContain('--appendfsync always');
    expect(command).toContain('--maxmemory-policy noeviction');
    expect(redis?.volumes).toContain('redis:/data');
    expect(redis?.healthcheck?.test.join(' ')).toContain('redis-cli ping');
  });

  it.each(['server', 'gateway', 'worker'])('lets %s wait for a healthy Redis and time to drain', (name) => {
    const service = compose.services[name];
    expect(service?.depends_on['redis']).toEqual({ condition: 'service_healthy' });
    expect(service?.environment['REDIS_URL']).toBe('redis://redis:6379');
    expect(Number.parseInt(service?.stop_grace_period ?? '', 10)).toBeGreaterThan(30);
  });

  it('names only volumes that it declares', () => {
    const used = Object.values(compose.services).flatMap((service) =>
      service.volumes.map((one) => one.split(':')[0]),
    );
    for (const volume of used) expect(Object.keys(compose.volumes)).toContain(volume);
  });

  it.skipIf(spawnSync('docker', ['compose', 'version']).status !== 0)(
    'is accepted by the compose client (skipped where it is not installed)',
    () => {
      for (const [args, expected] of [
        [[], ['redis', 'server']],
        [
          ['--profile', 'scale'],
          ['gateway', 'redis', 'worker'],
        ],
      ] as const) {
        const { stdout, stderr, status } = spawnSync('docker', ['compose', ...args, 'config', '--services'], {
          cwd: ROOT,
          encoding: 'utf8',
        });
        expect(stderr).toBe('');
        expect(status).toBe(0);
        expect(stdout.trim().split('\n').sort()).toEqual(expected);
      }
    },
  );
});

describe('Dockerfile', () => {
  const instructions = read('Dockerfile')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => /^[A-Z]+ /.test(line));
  const all = (name: string) => instructions.filter((line) => line.startsWith(`${name} `));

  it('has two stages on a slim Node 24', () => {
    expect(all('FROM').map((line) => line.split(' ')[1])).toEqual(['node:24-slim', 'node:24-slim']);
  });

  it('installs production packages from the lockfile, and no second Node', () => {
    const run = all('RUN').join('\n');
    expect(run).toContain('npm ci --omit=dev --ignore-scripts');
    expect(run).toContain('rm -rf node_modules/node node_modules/.bin');
  });

  it('does not run as root, has a health check, and gets signals itself', () => {
    expect(all('USER')).toEqual(['USER node']);
    expect(instructions.indexOf('USER node')).toBeLessThan(
      instructions.findIndex((line) => line.startsWith('ENTRYPOINT')),
    );
    expect(all('HEALTHCHECK').join()).toContain('/healthz');
    expect(all('ENTRYPOINT')).toEqual(['ENTRYPOINT ["node", "--max-semi-space-size=16", "src/main.ts"]']);
  });

  it('has a health check that is a program', () => {
    const [, json] = /CMD (\[.*\])$/.exec(all('HEALTHCHECK').join()) ?? [];
    const [, , program]: string[] = JSON.parse(json ?? '[]');
    const run = (port: number) =>
      spawnSync(process.execPath, ['-e', program ?? ''], { env: { PORT: String(port) }, encoding: 'utf8' });
    expect(run(1)).toMatchObject({ status: 1, stderr: '' });
  });

  it('copies what exists and what .dockerignore lets through', () => {
    const ignore = read('.dockerignore').split('\n');
    const sources = all('COPY')
      .filter((line) => !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(sources).toContain('src');
    for (const source of sources) {
      expect(existsSync(join(ROOT, source)), source).toBe(true);
      expect(ignore, source).toContain(`!${source}`);
    }
    expect(ignore).toContain('config/local.yaml');
  });
});
