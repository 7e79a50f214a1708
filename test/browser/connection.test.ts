// The chat page on a bad day: connections that drop, answers that get lost, a server that is killed. Nothing is lost, and
// nothing is there twice.
import { beforeEach, describe, expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startServer, withModel } from '../fakes/server.ts';
import { startProxy, type Proxy } from './proxy.ts';
import { heldTool, useChat, type ChatPage } from './support.ts';

const held = heldTool('slow_search');
const { track } = useCleanups();
const site = useChat({ tools: [held.tool] });
let proxy: Proxy;
let chat: ChatPage;
beforeEach(async () => {
  held.reset();
  proxy = track(await startProxy(site.url));
  chat = await site.open({ url: proxy.url });
});

const words = Array.from({ length: 60 }, (_, n) => `word${n} `);
const story = words.join('').trim();

describe('an event stream that drops', () => {
  test('again and again in the middle of an answer: no word is lost or repeated', async () => {
    site.model.enqueue({ text: words, chunkDelayMs: 50 });
    await chat.say('Tell me a story');
    for (const word of ['word4 ', 'word15 ', 'word30 ']) {
      await chat.page.locator('.live .markdown', { hasText: word }).waitFor();
      proxy.cut();
    }
    expect(await chat.answer()).toBe(story);
    expect(await chat.items()).toEqual(['Tell me a story', story]);
  });

  test('and stays away until after the end: the page says so, then shows all of it', async () => {
    await chat.say('use:slow_search');
    await held.called();
    await chat.page.locator('.tool[data-state=running]').waitFor();
    proxy.down = true;
    proxy.cut();
    const line = chat.page.locator('#connection');
    await expect.poll(() => line.textContent(), { timeout: 10_000 }).toBe('Connection lost. Reconnecting…');
    expect(await line.getAttribute('role')).toBe('status');
    held.release('found');
    await site.model.request(site.model.requests.length);
    proxy.down = false;
    expect(await chat.answer()).toContain('result: found');
    expect(await chat.items()).toHaveLength(2);
    await expect.poll(() => line.isHidden(), { timeout: 10_000 }).toBe(true);
  });

  test('more than one run passes meanwhile', async () => {
    await chat.say('First');
    await chat.answer();
    proxy.down = true;
    proxy.cut();
    const id = await chat.page.evaluate(() => sessionStorage.getItem('lanekeeper.current.web'));
    for (const n of [2, 3]) {
      const body = JSON.stringify({ id: `message-number-${n}-of-three`, text: `Number ${n}` });
      const headers = { 'content-type': 'application/json' };
      const calls = site.model.requests.length;
      await fetch(`${site.url}/web/web/conversations/${id}/messages`, { method: 'POST', headers, body });
      await site.model.request(calls);
    }
    proxy.down = false;
    await chat.answer(3);
    expect(await chat.items()).toEqual([
      'First',
      'echo: First',
      'Number 2',
      'echo: Number 2',
      'Number 3',
      'echo: Number 3',
    ]);
  });
});

describe('a message', () => {
  const calls = () => site.model.requests.length;

  test('whose acknowledgement got lost is sent again and answered once', async () => {
    const before = calls();
    let lost = 0;
    await chat.page.route('**/messages', async (route) => {
      // The server took it; the answer never arrives.
      await route.fetch();
      if (lost++ < 2) await route.abort('connectionreset');
      else await route.fallback();
    });
    await chat.say('Once, please');
    expect(await chat.answer()).toBe('echo: Once, please');
    await expect.poll(() => lost, { timeout: 15_000 }).toBe(3);
    expect(await chat.items()).toEqual(['Once, please', 'echo: Once, please']);
    expect(calls()).toBe(before + 1);
  });

  test('posted twice with one id is answered once', async () => {
    const before = calls();
    const statuses = await chat.page.evaluate(async () => {
      const id = sessionStorage.getItem('lanekeeper.current.web');
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ id: 'the-same-id-both-times', text: 'Twice' }),
      };
      const both = await Promise.all([1, 2].map(() => fetch(`/web/web/conversations/${id}/messages`, init)));
      return Promise.all(
        both.map(async (response) => ((await response.json()) as { status: string }).status),
      );
    });
    expect(statuses.toSorted()).toEqual(['duplicate', 'queued']);
    await chat.answer();
    expect(await chat.items()).toEqual(['Twice', 'echo: Twice']);
    expect(calls()).toBe(before + 1);
  });

  test('Enter pressed twice sends one', async () => {
    await chat.page.locator('#input').fill('Quick');
    await chat.page.keyboard.press('Enter');
    await chat.page.keyboard.press('Enter');
    await chat.answer();
    expect(await chat.items()).toEqual(['Quick', 'echo: Quick']);
  });

  test('written while the server is away is sent when it is back, in order, also by a page that was closed', async () => {
    proxy.down = true;
    proxy.cut();
    await chat.say('One');
    await chat.say('Two');
    await chat.page.locator('.item.user[data-state=sending]').nth(1).waitFor();
    await expect
      .poll(() => chat.page.locator('#connection').textContent(), { timeout: 10_000 })
      .toMatch(/reach|Reconnect/);
    proxy.down = false;
    await chat.page.reload();
    await chat.page.locator('.item.user[data-state=taken]').nth(1).waitFor({ timeout: 20_000 });
    const said = (await chat.items()).filter((item) => item === 'One' || item === 'Two');
    expect(said).toEqual(['One', 'Two']);
  });

  test('that the server refuses says why, and goes back to be edited', async () => {
    const before = calls();
    await chat.say('x'.repeat(100_001));
    await chat.page.locator('.item.user[data-state=failed]').waitFor();
    expect(await chat.page.locator('.item.user .state').innerText()).toMatch(
      /^Not sent\. The message is too long\./,
    );
    await chat.page.getByRole('button', { name: 'Edit' }).click();
    expect(await chat.page.locator('.item').count()).toBe(0);
    expect((await chat.page.locator('#input').inputValue()).length).toBe(100_001);
    await chat.say('shorter');
    await chat.answer();
    expect(calls()).toBe(before + 1);
  });
});

test('a server that is just starting is waited for', async () => {
  let refused = 0;
  await chat.page.route('**/web/session', async (route) => {
    if (refused++ < 2)
      await route.fulfill({ status: 503, headers: { 'retry-after': '1' }, body: 'starting' });
    else await route.continue();
  });
  await chat.page.reload();
  await chat.page.locator('#load-failed').waitFor();
  expect(await chat.page.locator('#load-problem').innerText()).toBe(
    'The server has a problem. Trying again…',
  );
  await chat.page.locator('#welcome').waitFor();
  expect(await chat.page.locator('#load-failed').isVisible()).toBe(false);
});

test.each([
  ['sees it resumed', false],
  ['comes back when it is over', true],
])('kill -9 in the middle of an answer; the page %s: it is there once', async (_name, late) => {
  const model = await startModelServer();
  const config = withModel(model.openaiUrl, { workers: { lock_seconds: 1, sweep_seconds: 1 } });
  let real = await startServer({ config });
  try {
    proxy.target = real.url;
    proxy.cut();
    await chat.page.reload();
    await chat.say('Before');
    await chat.answer();
    const id = await chat.page.evaluate(() => sessionStorage.getItem('lanekeeper.current.web'));
    model.enqueue({ text: words, stallAfter: 8 });
    await chat.say('Tell me a story');
    await chat.page.locator('.live .markdown', { hasText: 'word1 ' }).waitFor();
    await real.kill('SIGKILL');
    await expect
      .poll(() => chat.page.locator('#connection').textContent(), { timeout: 10_000 })
      .toMatch(/Reconnecting/);
    // What was written is still there to read.
    expect((await chat.items())[3]).toContain('word1');
    model.enqueue({ text: words });
    proxy.down = late;
    real = await startServer({ config, dataDir: real.dataDir });
    proxy.target = real.url;
    if (late) {
      const conversation = `${real.url}/web/web/conversations/${id}`;
      await expect
        .poll(async () => (await fetch(conversation)).json(), { timeout: 20_000 })
        .toMatchObject({ pending: 0 });
      proxy.down = false;
    }
    await expect.poll(async () => (await chat.items())[3], { timeout: 30_000 }).toBe(story);
    await chat.answer(2);
    expect(await chat.items()).toEqual(['Before', 'echo: Before', 'Tell me a story', story]);
    await chat.page.reload();
    await chat.answer(2);
    expect(await chat.items()).toEqual(['Before', 'echo: Before', 'Tell me a story', story]);
  } finally {
    await real.close();
    await model.close();
  }
});
