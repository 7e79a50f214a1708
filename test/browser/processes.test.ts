// The chat page on Redis, with a gateway and workers in processes of their own: what happens in a worker is seen in the
// page, and a worker that is killed is replaced before the reader's eyes.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { launchBrowser, openChat } from './support.ts';

let browser: Browser;
let redis: RedisServer;
let model: ModelServer;
let servers: ServerProcess[] = [];
beforeAll(async () => {
  browser = await launchBrowser();
  redis = await startRedis();
  model = await startModelServer();
});
afterAll(async () => {
  await browser.close();
  await Promise.all(servers.map((server) => server.close()));
  await model.close();
  await redis.close();
});

async function start(role: string): Promise<ServerProcess> {
  const config = withModel(model.openaiUrl, { workers: { lock_seconds: 1, sweep_seconds: 1 } });
  const server = await startServer({ config, redisUrl: redis.url, args: ['--role', role] });
  servers.push(server);
  return server;
}

test('streamed from a worker; stopped there; taken over when the worker is killed', async () => {
  const gateway = await start('gateway');
  const worker = await start('worker');
  const chat = await openChat(browser, gateway.url);
  const words = Array.from({ length: 30 }, (_, n) => `word${n} `);
  const story = words.join('').trim();

  model.enqueue({ text: words, chunkDelayMs: 40 });
  await chat.say('Tell me a story');
  await chat.page.locator('.live .markdown', { hasText: 'word3 ' }).waitFor();
  expect(await chat.answer()).toBe(story);

  model.enqueue({ text: words, stallAfter: 8 });
  await chat.say('Another one');
  await chat.page.locator('.live .markdown', { hasText: 'word3 ' }).waitFor();
  await chat.page.locator('#stop').click();
  expect(await chat.answer(2)).toMatch(/^word0 word1/);
  expect(await chat.page.locator('.stopped').last().innerText()).toBe('Stopped');

  model.enqueue({ text: words, stallAfter: 8 });
  await chat.say('The last one');
  await chat.page.locator('.live .markdown', { hasText: 'word3 ' }).waitFor();
  // Reloaded in the middle, it is all there: the events are not the worker's.
  await chat.page.reload();
  await chat.page.locator('.live .markdown', { hasText: 'word3 ' }).waitFor();
  model.enqueue({ text: words });
  await worker.kill('SIGKILL');
  await start('worker');
  await expect.poll(async () => (await chat.items())[5], { timeout: 30_000 }).toBe(story);
  await chat.answer(3);
  const items = await chat.items();
  expect(items).toHaveLength(6);
  await chat.page.reload();
  await chat.answer(3);
  expect(await chat.items()).toEqual(items);
  await chat.check();
  await chat.close();
});
