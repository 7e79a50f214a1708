// What a model, a tool or a stranger writes can't do anything to the page or its reader; and who has no key stays outside.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  heldTool,
  launchBrowser,
  openChat,
  startChatServer,
  type ChatPage,
  type ChatServer,
} from './support.ts';

let browser: Browser;
let server: ChatServer | undefined;
let chat: ChatPage | undefined;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());
afterEach(async () => {
  await chat?.check();
  await chat?.close();
  await server?.close();
  chat = undefined;
  server = undefined;
});

const ATTACKS = [
  '<script>window.pwned = 1</script>',
  '<img src=x onerror="window.pwned = 2">',
  '<svg onload="window.pwned = 3"><a href="javascript:alert(1)"><text>x</text></a></svg>',
  '<iframe src="javascript:parent.pwned=4"></iframe><iframe srcdoc="<script>parent.pwned=5</script>"></iframe>',
  '[click](javascript:window.pwned=6) [click](JaVaScRiPt&#58;window.pwned=7) [click](data:text/html,<script>1</script>)',
  '[click](vbscript:x) [click]( &#106;avascript:window.pwned=8 ) <javascript:window.pwned=9>',
  '![x](https://evil.example/pixel.png) ![x](x" onerror="window.pwned=10)',
  '[ref]: javascript:window.pwned=11\n\n[ref] [text][ref]',
  '<a href="#" onclick="window.pwned=12">click</a><form action="https://evil.example"><button>go</button></form>',
  '```html"><img src=x onerror=window.pwned=13>\n</code></pre><script>window.pwned=14</script>\n```',
  '| <img src=x onerror=window.pwned=15> | `<b>` |\n|---|---|\n| <style>*{display:none}</style> | <base href="https://evil.example/"> |',
  '# <img src=x onerror=window.pwned=16>\n\n> <script>window.pwned=17</script>\n\n- <script>window.pwned=18</script>',
  '<details ontoggle="window.pwned=19" open><summary>x</summary></details><math><mi xlink:href="javascript:1">x</mi></math>',
  '<meta http-equiv="refresh" content="0;url=https://evil.example"><link rel=stylesheet href=https://evil.example/x.css>',
  'https://example.com/"onmouseover="window.pwned=20" <https://example.com/\'onclick=\'window.pwned=21>',
  '&lt;script&gt;window.pwned=22&lt;/script&gt; &#60;img src=x onerror=window.pwned=23&#62;',
];
const FORBIDDEN =
  'script, img, iframe, object, embed, form, style, link, base, meta, math, svg:not(.icon), video, audio';

test('nothing that a model writes is more than text', async () => {
  const held = heldTool('evil_tool');
  server = await startChatServer({ tools: [held.tool] });
  chat = await openChat(browser, server.url);
  const { page } = chat;
  const attack = ATTACKS.join('\n\n');
  held.release(attack);
  server.model.enqueue(
    { thinking: attack, calls: [{ name: 'evil_tool', arguments: { what: ATTACKS[1] ?? '' } }] },
    { text: attack },
  );
  await chat.say(attack);
  await chat.answer();
  for (const details of await page.locator('summary').all()) await details.click();

  const inspect = () =>
    page.evaluate((forbidden) => {
      const messages = document.getElementById('messages')!;
      const handlers = [...messages.querySelectorAll('*')].flatMap((element) =>
        element.getAttributeNames().filter((name) => name.startsWith('on') || name === 'style'),
      );
      return {
        forbidden: [...messages.querySelectorAll(forbidden)].map((element) => element.outerHTML),
        handlers,
        links: [...messages.querySelectorAll('a')].map((link) => new URL(link.href).protocol),
        targets: [...messages.querySelectorAll('a')].every(
          (link) => link.target === '_blank' && link.relList.contains('noopener'),
        ),
        pwned: 'pwned' in window,
      };
    }, FORBIDDEN);
  const seen = await inspect();
  expect(seen).toMatchObject({ forbidden: [], handlers: [], targets: true, pwned: false });
  expect(new Set(seen.links)).toEqual(new Set(['https:']));
  // It is all there to be read.
  expect(await page.locator('.markdown').innerText()).toContain('<script>window.pwned = 1</script>');
  expect(await page.locator('.said').innerText()).toBe(attack);
  for (const link of await page.locator('.markdown span[title]').all()) await link.click();
  expect(await page.evaluate(() => location.href)).toBe(`${server.url}/`);

  // And again from the history; and as the title of the conversation.
  await page.reload();
  await chat.answer();
  expect(await inspect()).toMatchObject({ forbidden: [], handlers: [], pwned: false });
  expect(await page.locator('#sidebar').locator('script, img').count()).toBe(0);
});

test('no HTML can get into the page: the browser itself refuses', async () => {
  server = await startChatServer();
  chat = await openChat(browser, server.url);
  const refused = await chat.page.evaluate(() => {
    const tries: (() => void)[] = [
      () => (document.createElement('div').innerHTML = '<b>x</b>'),
      () => document.body.insertAdjacentHTML('beforeend', '<b>x</b>'),
      () => (document.createElement('script').src = 'https://evil.example/x.js'),
    ];
    return tries.map((attempt) => {
      try {
        attempt();
        return 'let through';
      } catch (error) {
        return error instanceof TypeError ? 'refused' : String(error);
      }
    });
  });
  expect(refused).toEqual(['refused', 'refused', 'refused']);
  // These tries are reported; they are no mistake of the page.
  await chat.close();
  chat = undefined;
});

describe('with a key', () => {
  test('it is asked for once; a wrong one is told so; the cookie is out of reach', async () => {
    server = await startChatServer({ web: { api_keys: ['the-key-of-the-house'] } });
    chat = await openChat(browser, server.url, { signedOut: true });
    const { page } = chat;
    await page.keyboard.press('Escape');
    await page.locator('#key').fill('wrong');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('#sign-in-problem').textContent()).toBe('That key is not right.');
    expect(await page.locator('#sign-in').isVisible()).toBe(true);
    await page.locator('#key').fill('the-key-of-the-house');
    await page.keyboard.press('Enter');
    await page.locator('#welcome').waitFor();
    await chat.say('Hello');
    expect(await chat.answer()).toBe('echo: Hello');
    const kept = await page.evaluate(() =>
      [document.cookie, ...[localStorage, sessionStorage].flatMap((store) => Object.values(store))].join(),
    );
    expect(kept).not.toContain('the-key-of-the-house');
    expect(kept).not.toContain('lanekeeper_web');
    await page.reload();
    await chat.answer();
    expect(await page.locator('#sign-in').isVisible()).toBe(false);
  });

  test('a session that ends is asked for again, and what was written is sent after that', async () => {
    server = await startChatServer({ web: { api_keys: ['the-key-of-the-house'] } });
    chat = await openChat(browser, server.url, { signedOut: true });
    const { page } = chat;
    await page.locator('#key').fill('the-key-of-the-house');
    await page.keyboard.press('Enter');
    await page.locator('#welcome').waitFor();
    await page.context().clearCookies();
    await chat.say('Still here?');
    await page.locator('#sign-in').waitFor();
    await page.locator('#key').fill('the-key-of-the-house');
    await page.keyboard.press('Enter');
    expect(await chat.answer()).toBe('echo: Still here?');
    expect(await chat.items()).toEqual(['Still here?', 'echo: Still here?']);
  });
});
