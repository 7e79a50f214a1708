// The chat page's main job: a message typed in, the answer streamed, tools seen at work, stopped, kept.
import { beforeEach, describe, expect, test } from 'vitest';
import { heldTool, useChat, type ChatPage } from './support.ts';

const held = heldTool('slow_search');
const site = useChat({ tools: [held.tool] });
let chat: ChatPage;
beforeEach(async () => {
  held.reset();
  chat = await site.open();
});

const words = Array.from({ length: 20 }, (_, n) => `word${n} `);

test('an answer is seen while it is written', async () => {
  site.model.enqueue({ text: words, chunkDelayMs: 60 });
  await chat.say('Tell me a story');
  const seen = await chat.page.waitForFunction(() => {
    const text = document.querySelector('.item.assistant.live .markdown')?.textContent ?? '';
    return text.includes('word1') && !text.includes('word19') ? text : false;
  });
  expect(await seen.jsonValue()).toMatch(/^word0 word1/);
  expect(await chat.page.locator('#stop').isVisible()).toBe(true);
  expect(await chat.page.locator('#messages').getAttribute('aria-busy')).toBe('true');
  expect(await chat.answer()).toBe(words.join('').trim());
  expect(await chat.page.locator('#messages').getAttribute('aria-busy')).toBe('false');
  expect(await chat.items()).toEqual(['Tell me a story', words.join('').trim()]);
  // A screen reader is told the answer once, when it is complete.
  expect(await chat.page.locator('#announcer').textContent()).toContain('word0 word1');
});

test('reasoning is there, folded', async () => {
  site.model.enqueue({ thinking: 'Let me think about that.', text: 'Forty-two.' });
  await chat.say('The answer?');
  await chat.answer();
  const reasoning = chat.page.locator('.thinking');
  expect(await reasoning.locator('.reasoning').isVisible()).toBe(false);
  await reasoning.locator('summary').press('Enter');
  expect(await reasoning.locator('.reasoning').innerText()).toBe('Let me think about that.');
});

describe('a tool', () => {
  test('is seen while it runs: its name, what it is about, how long it took, its result', async () => {
    await chat.say('use:slow_search{"what":"lanes & stores"}');
    await held.called();
    const tool = chat.page.locator('.tool');
    await tool.waitFor();
    expect(await tool.locator('.name').innerText()).toBe('slow_search');
    await expect.poll(() => tool.getAttribute('data-state')).toBe('running');
    await expect.poll(() => tool.locator('.about').innerText()).toBe('half of it is done');
    expect(await chat.page.locator('#stop').isVisible()).toBe(true);
    // Opened while it runs, it stays open when it is done.
    await tool.locator('summary').click();
    expect(await tool.locator('pre').first().innerText()).toContain('lanes & stores');
    held.release('three pages found');
    await expect.poll(() => tool.getAttribute('data-state')).toBe('done');
    expect(await tool.locator('.tool-state').innerText()).toMatch(/^done · [\d.]+ (ms|s)$/);
    expect(await tool.locator('pre').last().innerText()).toBe('three pages found');
    expect(await chat.answer()).toContain('result: three pages found');
  });

  test('that fails says so', async () => {
    site.model.enqueue({ calls: [{ name: 'no_such_tool', arguments: '{}' }] }, { text: 'There is none.' });
    await chat.say('Use it');
    expect(await chat.answer()).toContain('There is none.');
    expect(await chat.page.locator('.tool').getAttribute('data-state')).toBe('failed');
  });
});

describe('the stop button', () => {
  test('ends a stream: what was written stays, the next message is answered', async () => {
    site.model.enqueue({ text: words, stallAfter: 6 });
    await chat.say('Tell me a story');
    await chat.page.locator('.live .markdown', { hasText: 'word1' }).waitFor();
    await chat.page.locator('#stop').click();
    expect(await chat.answer()).toMatch(/^word0 word1/);
    expect(await chat.page.locator('.stopped').innerText()).toBe('Stopped');
    // Focus goes back to where one writes.
    expect(await chat.page.evaluate(() => document.activeElement?.id)).toBe('input');
    await chat.say('And now?');
    expect(await chat.answer(2)).toBe('echo: And now?');
    const before = await chat.items();
    await chat.page.reload();
    await chat.page.locator('.item.assistant').nth(1).waitFor();
    expect((await chat.items())[1]).toContain('word0 word1');
    expect(await chat.page.locator('.stopped').first().innerText()).toBe('Stopped');
    expect(await chat.items()).toHaveLength(before.length);
  });

  test('ends a tool', async () => {
    await chat.say('use:slow_search');
    await held.called();
    await chat.page.locator('.tool[data-state=running]').waitFor();
    await chat.page.locator('#stop').click();
    await chat.answer();
    await expect.poll(() => chat.page.locator('.tool').getAttribute('data-state')).not.toBe('running');
    expect(await chat.page.locator('.stopped').isVisible()).toBe(true);
  });
});

test('a message sent while a run is on is taken into it', async () => {
  await chat.say('use:slow_search');
  await held.called();
  await chat.say('and in Berlin, too');
  await chat.page.locator('.item.user[data-state=waiting]').waitFor();
  site.model.enqueue({ text: 'Both of them.' });
  held.release('found');
  await chat.page.locator('.item.user[data-state=taken]', { hasText: 'Berlin' }).waitFor();
  await chat.page.locator('.item.assistant', { hasText: 'Both of them.' }).waitFor();
  const live = await chat.items();
  expect(live.map((item) => item.replaceAll(/\s+/g, ' '))).toEqual([
    'use:slow_search',
    expect.stringMatching(/^slow_search.*found$/),
    'and in Berlin, too',
    'Both of them.',
  ]);
  await chat.answer(2);
  await chat.page.reload();
  await chat.page.locator('.item.assistant').nth(1).waitFor();
  expect((await chat.items()).filter((_item, n) => n !== 1)).toEqual(live.filter((_item, n) => n !== 1));
});

describe('conversations', () => {
  test('a new one is empty and knows nothing of the others; the list leads back', async () => {
    await chat.say('First conversation');
    await chat.answer();
    await chat.page.locator('#new-chat').click();
    await chat.page.locator('#welcome').waitFor();
    expect(await chat.items()).toEqual([]);
    expect(await chat.page.evaluate(() => document.activeElement?.id)).toBe('input');
    await chat.say('Second conversation');
    await chat.answer();
    expect(JSON.stringify(site.model.requests.at(-1)?.body)).not.toContain('First conversation');
    const list = chat.page.locator('.chat');
    expect(await list.allInnerTexts()).toEqual(['Second conversation', 'First conversation']);
    expect(await list.first().getAttribute('aria-current')).toBe('page');
    await list.nth(1).click();
    await expect.poll(() => chat.items()).toEqual(['First conversation', 'echo: First conversation']);
    expect(await chat.page.title()).toBe('First conversation · Lanekeeper');
  });

  test('one is removed from the list', async () => {
    await chat.say('To be removed');
    await chat.answer();
    await chat.page.locator('.chats li').hover();
    await chat.page.locator('.chats .remove').click();
    await chat.page.locator('#remove button[value=keep]').click();
    expect(await chat.page.locator('.chat').count()).toBe(1);
    await chat.page.locator('.chats li').hover();
    await chat.page.locator('.chats .remove').click();
    await chat.page.locator('#remove button[value=remove]').click();
    await chat.page.locator('#welcome').waitFor();
    expect(await chat.page.locator('.chat').count()).toBe(0);
    expect(await chat.page.evaluate(() => Object.values(localStorage).join())).not.toContain('To be removed');
  });

  test('the history is there after a reload, with its tools', async () => {
    held.release('three pages found');
    await chat.say('use:slow_search{"what":"lanes"}');
    await chat.answer();
    await chat.page.reload();
    await chat.page.locator('.item.assistant').waitFor();
    const [question, answer] = await chat.items();
    expect(question).toBe('use:slow_search{"what":"lanes"}');
    expect(answer).toContain('result: three pages found');
    expect(await chat.page.locator('.tool').getAttribute('data-state')).toBe('done');
  });

  test('a page that is reloaded in the middle of a run shows all of it', async () => {
    site.model.enqueue({ text: 'I will look.', calls: [{ name: 'slow_search', arguments: '{}' }] });
    await chat.say('Look it up');
    await held.called();
    await chat.page.reload();
    await chat.page.locator('.tool[data-state=running]').waitFor();
    expect((await chat.items())[0]).toBe('Look it up');
    expect((await chat.items())[1]).toContain('I will look.');
    expect(await chat.page.locator('#stop').isVisible()).toBe(true);
    held.release('found');
    expect(await chat.answer()).toContain('result: found');
    expect(await chat.items()).toHaveLength(2);
  });

  test('older messages are loaded on demand, without a jump', async () => {
    await chat.say('Message 1');
    await chat.answer();
    const id = await chat.page.evaluate(() => sessionStorage.getItem('lanekeeper.current.web'));
    const conversation = `${site.url}/web/web/conversations/${id}`;
    for (let n = 2; n <= 32; n++) {
      const body = JSON.stringify({ id: `message-number-${n}-of-many`, text: `Message ${n}` });
      const headers = { 'content-type': 'application/json' };
      expect((await fetch(`${conversation}/messages`, { method: 'POST', headers, body })).status).toBe(202);
      await chat.page.locator('.item.assistant:not(.live)', { hasText: `Message ${n}` }).waitFor();
    }
    await chat.page.reload();
    await chat.page.locator('.item').nth(59).waitFor();
    expect((await chat.items())[0]).toBe('Message 3');
    const first = chat.page.locator('.item').first();
    await first.scrollIntoViewIfNeeded();
    const item = await first.elementHandle();
    const top = () => item.evaluate((element) => Math.round(element.getBoundingClientRect().top));
    const before = await top();
    await chat.page.locator('#earlier').click();
    await chat.page.locator('.item').nth(63).waitFor();
    expect((await chat.items())[0]).toBe('Message 1');
    const moved = Math.abs((await top()) - before);
    // The button that was above is gone.
    expect(moved).toBeLessThan(80);
    expect(await chat.page.locator('#earlier').isVisible()).toBe(false);
  });

  test('two tabs of one browser show the same', async () => {
    const other = await chat.page.context().newPage();
    await chat.say('Hello from the first tab');
    await chat.answer();
    await other.goto(site.url);
    await other.locator('.item.assistant').waitFor();
    await chat.say('use:slow_search');
    await held.called();
    await other.locator('.item.user', { hasText: 'use:slow_search' }).waitFor();
    await other.locator('.tool[data-state=running]').waitFor();
    held.release('found');
    await other.locator('.item.assistant', { hasText: 'result: found' }).waitFor();
    expect(await other.locator('.item').count()).toBe(4);
  });
});

test('a command is answered at once; /new empties the conversation', async () => {
  await chat.say('Remember me');
  await chat.answer();
  await chat.say('/new');
  await expect.poll(() => chat.items()).toEqual([expect.stringMatching(/start over/)]);
  await chat.say('Do you remember?');
  await chat.answer();
  expect(JSON.stringify(site.model.requests.at(-1)?.body)).not.toContain('Remember me');
});

test('what goes wrong in a run is said in a sentence', async () => {
  site.model.enqueue({ status: 401, error: { message: 'bad key sk-fake' } });
  await chat.say('Hello');
  await chat.answer();
  const text = await chat.page.locator('.item.assistant .error').innerText();
  expect(text).toMatch(/administrator/);
  expect(text).not.toContain('sk-fake');
});
