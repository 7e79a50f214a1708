// The doctor on what the server stands on: its port, its storage, its folders.
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { PROMPT_FOLDER } from '../../config/load.ts';
import { createPromptSource } from '../../config/prompt.ts';
import type { Config } from '../../config/schema.ts';
import { openStorage } from '../backend.ts';
import { notingLog, PATIENCE_MS, reasonOf, type Finding, type Running } from './finding.ts';

export async function runningServer({ server }: Config): Promise<Running | undefined> {
  const host = ['0.0.0.0', '::', ''].includes(server.host) ? '127.0.0.1' : server.host;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${server.port}`;
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
    const body: unknown = await answer.json();
    const ours = typeof body === 'object' && body !== null && 'status' in body && 'reasons' in body;
    return ours ? { url, ready: answer.ok } : undefined;
  } catch {
    // Nobody listens, or something that isn't ours: checkPort tells the two apart.
    return undefined;
  }
}

export async function checkPort({ server }: Config, running: Running | undefined): Promise<Finding> {
  const place = `${server.host}:${server.port}`;
  if (running) {
    const text = `the server is running at ${running.url} and ${running.ready ? 'ready' : `not ready: see ${running.url}/readyz`}`;
    return { state: running.ready ? 'ok' : 'wrong', part: 'server', text };
  }
  const probe = createServer();
  try {
    probe.listen(server.port, server.host);
    await once(probe, 'listening');
    return { state: 'ok', part: 'server', text: `${place} is free` };
  } catch (error) {
    const text = `${place} can't be listened on (${reasonOf(error)}): set another PORT or HOST, or stop the other program`;
    return { state: 'wrong', part: 'server', text };
  } finally {
    probe.close();
  }
}

export async function* checkStorage(config: Config, running: Running | undefined): AsyncGenerator<Finding> {
  const embedded = config.storage.url === '';
  const name = embedded ? `embedded SQLite in ${config.storage.data_dir}` : 'Redis';
  if (embedded && running?.ready) {
    // One process at a time may have the file open.
    yield { state: 'ok', part: 'storage', text: `${name}, in use by the running server, which is ready` };
    return;
  }
  const notes: string[] = [];
  try {
    const storage = await openStorage(config, notingLog(notes));
    try {
      await storage.check();
      yield { state: 'ok', part: 'storage', text: `${name}: writing and reading work` };
    } finally {
      await storage.close();
    }
  } catch (error) {
    const hint = embedded ? '' : '; check REDIS_URL (storage.url), and that Redis runs';
    yield { state: 'wrong', part: 'storage', text: `${reasonOf(error)}${hint}` };
    return;
  }
  for (const text of notes) yield { state: 'note', part: 'storage', text };
}

export async function checkMedia({ media, storage }: Config): Promise<Finding> {
  const folder = media.dir || join(storage.data_dir, 'media');
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return { state: 'ok', part: 'media', text: `files of messages are kept in ${folder}` };
  } catch (error) {
    const text = `files of messages can't be kept (${reasonOf(error)}): check media.dir and who may write there`;
    return { state: 'wrong', part: 'media', text };
  }
}

export async function checkPrompt(): Promise<Finding> {
  try {
    const prompt = await createPromptSource(PROMPT_FOLDER).read();
    const text = `system prompt of ${Buffer.byteLength(prompt)} bytes`;
    return { state: 'ok', part: 'agent', text };
  } catch (error) {
    return { state: 'wrong', part: 'agent', text: reasonOf(error) };
  }
}
