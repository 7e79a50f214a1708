// How the chat page meets people: their language, their screen, their keyboard, their input method, their eyes.
import type { BrowserContextOptions } from 'playwright-core';
import { beforeEach, describe, expect, test } from 'vitest';
import { heldTool, useChat, type ChatPage } from './support.ts';

const held = heldTool('a_tool_with_quite_a_long_name_indeed');
const site = useChat({ tools: [held.tool] });
let chat: ChatPage;
beforeEach(() => held.reset());
async function open(options?: BrowserContextOptions): Promise<void> {
  chat = await site.open(options);
}

describe('languages', () => {
  test('Chinese for a Chinese browser; switched to English, and remembered', async () => {
    await open({ locale: 'zh-CN' });
    const { page } = chat;
    expect(await page.locator('html').getAttribute('lang')).toBe('zh-CN');
    expect(await page.locator('#new-chat').innerText()).toBe('新对话');
    expect(await page.locator('#input').getAttribute('placeholder')).toBe('输入消息…');
    expect(await page.locator('#send').getAttribute('aria-label')).toBe('发送');
    await chat.say('你好');
    expect(await chat.answer()).toBe('echo: 你好');
    await page.locator('#language').selectOption('en');
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    expect(await page.locator('#new-chat').innerText()).toBe('New conversation');
    expect(await page.locator('.foot button').innerText()).toBe('Copy');
    await page.reload();
    await page.locator('.item.assistant').waitFor();
    expect(await page.locator('#new-chat').innerText()).toBe('New conversation');
  });

  test.each(['en-GB', 'fr-FR', 'zh-TW'])('%s', async (locale) => {
    await open({ locale });
    const chinese = locale.startsWith('zh');
    expect(await chat.page.locator('#new-chat').innerText()).toBe(chinese ? '新对话' : 'New conversation');
    expect(await chat.page.locator('#language').inputValue()).toBe(chinese ? 'zh' : 'en');
  });
});

describe('a phone of 360 pixels', () => {
  const phone = { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true };
  const wide = [
    '# A heading_with_a_very_long_word_that_has_no_place_to_break_at_all_in_it',
    `| ${'Column | '.repeat(8)}`,
    `|${'---|'.repeat(8)}`,
    `| ${'some value | '.repeat(8)}`,
    '',
    '```',
    `const line = '${'x'.repeat(200)}';`,
    '```',
    '',
    `https://example.com/${'path/'.repeat(60)}`,
    '',
    '1. one\n   - two\n     - three\n       - four `code_that_is_long_enough_to_be_wider_than_a_phone_is`',
  ].join('\n');
  /** What reaches beyond the right edge, apart from what scrolls by itself. */
  const tooWide = () =>
    chat.page.evaluate(() => {
      const scrolls = (element: Element) => ['auto', 'scroll'].includes(getComputedStyle(element).overflowX);
      const beyond = [...document.querySelectorAll('body *')].filter((element) => {
        for (let at = element.parentElement; at; at = at.parentElement) if (scrolls(at)) return false;
        return element.checkVisibility() && Math.round(element.getBoundingClientRect().right) > 360;
      });
      // A page that is too wide makes a phone zoom out.
      return [
        ...beyond.map((element) => element.outerHTML.slice(0, 100)),
        ...(innerWidth > 360 ? ['the page'] : []),
      ];
    });

  test('nothing is wider than the screen; what is wide scrolls by itself', async () => {
    await open(phone);
    expect(await tooWide()).toEqual([]);
    site.model.enqueue({ text: wide, thinking: 'y'.repeat(300) });
    await chat.say('z'.repeat(300));
    await chat.answer();
    await chat.page.locator('.thinking summary').click();
    expect(await tooWide()).toEqual([]);
    const pre = chat.page.locator('.code pre');
    expect(await pre.evaluate((element) => element.scrollWidth > element.clientWidth)).toBe(true);

    held.release('w'.repeat(300));
    await chat.say(
      'use:a_tool_with_quite_a_long_name_indeed{"what":"something_long_without_any_space_in_it_at_all"}',
    );
    await chat.answer(2);
    await chat.page.locator('.tool summary').click();
    expect(await tooWide()).toEqual([]);
  });

  test('the list of conversations is a drawer', async () => {
    await open(phone);
    const { page } = chat;
    const sidebar = page.locator('#sidebar');
    expect(await sidebar.isVisible()).toBe(false);
    await page.locator('#open-menu').click();
    await sidebar.waitFor();
    expect(await page.locator('#open-menu').getAttribute('aria-expanded')).toBe('true');
    expect(
      await page.evaluate(() => document.getElementById('sidebar')?.contains(document.activeElement)),
    ).toBe(true);
    expect(await page.evaluate(() => document.getElementById('main')?.inert)).toBe(true);
    expect(await tooWide()).toEqual([]);
    await page.keyboard.press('Escape');
    await sidebar.waitFor({ state: 'hidden' });
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('open-menu');
    await chat.say('Hello');
    await chat.answer();
    await page.locator('#open-menu').click();
    await page.locator('#new-chat').click();
    await page.locator('#welcome').waitFor();
    await sidebar.waitFor({ state: 'hidden' });
  });

  test('what is tapped is large enough for a finger', async () => {
    await open(phone);
    for (const id of ['open-menu', 'new-chat-top', 'send']) {
      const box = await chat.page.locator(`#${id}`).boundingBox();
      expect(Math.min(box?.width ?? 0, box?.height ?? 0), id).toBeGreaterThanOrEqual(38);
    }
  });
});

describe('writing', () => {
  test('Shift + Enter starts a new line, the box grows, Enter sends, and the box is small again', async () => {
    await open();
    const input = chat.page.locator('#input');
    const height = async () => (await input.boundingBox())?.height ?? 0;
    const small = await height();
    await input.pressSequentially('one');
    for (const line of ['two', 'three', 'four']) {
      await input.press('Shift+Enter');
      await input.pressSequentially(line);
    }
    expect(await height()).toBeGreaterThan(small * 2);
    await input.press('Enter');
    expect(Math.abs((await height()) - small)).toBeLessThan(1);
    await chat.answer();
    expect((await chat.items())[0]).toBe('one\ntwo\nthree\nfour');
  });

  test('the Enter that picks a word in an input method does not send', async () => {
    await open({ locale: 'zh-CN' });
    const { page } = chat;
    const session = await page.context().newCDPSession(page);
    await page.locator('#input').focus();
    await page.evaluate(() => {
      const input = document.getElementById('input')!;
      const note = (event: KeyboardEvent) => (input.dataset['composing'] = String(event.isComposing));
      input.addEventListener('keydown', note, { once: true });
    });
    await session.send('Input.imeSetComposition', { text: '你好', selectionStart: 2, selectionEnd: 2 });
    // What a browser tells of a key that the input method takes.
    await session.send('Input.dispatchKeyEvent', {
      type: 'rawKeyDown',
      key: 'Enter',
      code: 'Enter',
      windowsVirtualKeyCode: 229,
    });
    await expect.poll(() => page.locator('#input').getAttribute('data-composing')).toBe('true');
    await session.send('Input.insertText', { text: '你好' });
    expect(await page.locator('#input').inputValue()).toBe('你好');
    // Safari: the composition is over before the key is told; the code is what is left of it.
    await page.locator('#input').evaluate((element) => {
      element.dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }),
      );
    });
    expect(await chat.items()).toEqual([]);
    await page.keyboard.press('Enter');
    await chat.answer();
    expect(await chat.items()).toEqual(['你好', 'echo: 你好']);
  });

  test('nothing is sent when there is nothing to send', async () => {
    await open();
    expect(await chat.page.locator('#send').isDisabled()).toBe(true);
    await chat.page.locator('#input').fill('  \n ');
    await chat.page.keyboard.press('Enter');
    expect(await chat.page.locator('#send').isDisabled()).toBe(true);
    expect(await chat.items()).toEqual([]);
  });

  test('a suggestion is one click', async () => {
    await open();
    await chat.page.locator('#suggestions button').first().click();
    expect(await chat.answer()).toBe('echo: What can you do?');
  });
});

describe('reading', () => {
  const lines = Array.from({ length: 80 }, (_, n) => `Line ${n}\n\n`);
  const distance = () =>
    chat.page
      .locator('#scroller')
      .evaluate((element) => Math.round(element.scrollHeight - element.clientHeight - element.scrollTop));

  test('the newest text stays in sight, unless the reader scrolls away; a button leads back', async () => {
    await open({ viewport: { width: 900, height: 500 } });
    site.model.enqueue({ text: lines, chunkDelayMs: 30 });
    await chat.say('Go on');
    await chat.page.locator('.live', { hasText: 'Line 30' }).waitFor();
    await expect.poll(distance).toBe(0);
    await chat.page.mouse.move(600, 250);
    await chat.page.mouse.wheel(0, -300);
    await chat.page.locator('#latest').waitFor();
    const top = await chat.page.locator('#scroller').evaluate((element) => element.scrollTop);
    await chat.answer();
    expect(await chat.page.locator('#scroller').evaluate((element) => element.scrollTop)).toBe(top);
    await chat.page.locator('#latest').click();
    await expect.poll(distance).toBe(0);
    await chat.page.locator('#latest').waitFor({ state: 'hidden' });
  });

  test('what is selected stays selected while the answer goes on', async () => {
    await open();
    site.model.enqueue({ text: lines.slice(0, 30), chunkDelayMs: 40 });
    await chat.say('Go on');
    await chat.page.locator('.live', { hasText: 'Line 5' }).waitFor();
    await chat.page.locator('.live .markdown p').first().click({ clickCount: 3 });
    const selected = () => chat.page.evaluate(() => getSelection()?.toString().trim());
    expect(await selected()).toBe('Line 0');
    await chat.answer();
    expect(await selected()).toBe('Line 0');
  });

  test('Markdown: headings, lists, tables, code with copy, Chinese emphasis', async () => {
    await open();
    const code = 'a < b && c\n';
    site.model.enqueue({
      text: [
        '# Title\n\nSome *words*, **“重点”**在这里, ~~gone~~ and `x < y`, &amp; 5 &lt; 6.',
        '\n\n- one\n- two\n  1. deep\n\n- [x] done\n\n| a | b |\n|---|--:|\n| 1 | 2<br>3 |\n\n> quoted\n\n',
        `\`\`\`js\n${code}\`\`\`\n\n[a link](https://example.com/x) ![a picture](https://example.com/y.png)`,
      ].join(''),
    });
    await chat.say('Show me');
    await chat.answer();
    const markdown = chat.page.locator('.markdown');
    expect(await markdown.locator('h3').innerText()).toBe('Title');
    expect(await markdown.locator('strong').allInnerTexts()).toEqual(['“重点”']);
    expect(await markdown.locator('em').innerText()).toBe('words');
    expect(await markdown.locator('p').first().innerText()).toContain('& 5 < 6.');
    expect(await markdown.locator('li ol li').innerText()).toBe('deep');
    expect(await markdown.locator('li.task input').isChecked()).toBe(true);
    expect(await markdown.locator('td').allInnerTexts()).toEqual(['1', '2\n3']);
    expect(await markdown.locator('.code-head span').first().innerText()).toBe('js');
    expect(
      await markdown.locator('a').evaluateAll((links) => links.map((link) => link.getAttribute('href'))),
    ).toEqual(['https://example.com/x', 'https://example.com/y.png']);
    expect(await markdown.locator('img').count()).toBe(0);
    await chat.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await markdown.locator('.code button').click();
    await expect.poll(() => markdown.locator('.code button').innerText()).toBe('Copied');
    expect(await chat.page.evaluate(() => navigator.clipboard.readText())).toBe(code.trimEnd());
  });
});

describe('light and dark', () => {
  const background = () => chat.page.evaluate(() => getComputedStyle(document.body).backgroundColor);

  test('as the system; a choice is remembered, from the first paint on', async () => {
    await open({ colorScheme: 'dark' });
    const dark = await background();
    await chat.page.locator('#theme').selectOption('light');
    const light = await background();
    expect(light).not.toBe(dark);
    await chat.page.reload();
    expect(await background()).toBe(light);
    await chat.page.locator('#theme').selectOption('auto');
    expect(await background()).toBe(dark);
  });

  test.each(['light', 'dark'] as const)('%s: text has enough contrast (WCAG AA)', async (colorScheme) => {
    await open({ colorScheme });
    site.model.enqueue({ text: 'See [here](https://example.com) and `code`.', thinking: 'Hm.' });
    await chat.say('Hello');
    await chat.answer();
    const ratios = await chat.page.evaluate(() => {
      const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })!;
      const rgb = (color: string): number[] => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
      };
      const luminance = (color: number[]): number => {
        const [r = 0, g = 0, b = 0] = color.slice(0, 3).map((value) => {
          const part = value / 255;
          return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (element: Element | null): number[] => {
        for (let at = element; at; at = at.parentElement) {
          const color = rgb(getComputedStyle(at).backgroundColor);
          if (color[3] === 255) return color;
        }
        return [255, 255, 255, 255];
      };
      const selectors = [
        '.said',
        '.markdown p',
        '.markdown a',
        '.markdown code',
        '.thinking .name',
        '.foot button',
        '.hint',
        '.chat',
        '.new-chat',
        '.top h1',
        '#theme',
      ];
      return selectors.map((selector) => {
        const element = document.querySelector(selector)!;
        const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(behind(element))].sort(
          (x, y) => y - x,
        );
        return { selector, ratio: (a! + 0.05) / (b! + 0.05) };
      });
    });
    for (const { selector, ratio } of ratios) expect(ratio, selector).toBeGreaterThanOrEqual(4.5);
  });
});

test('the keyboard reaches everything, in order, and sees where it is', async () => {
  await open();
  await chat.say('Hello');
  await chat.answer();
  const { page } = chat;
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  const stops: string[] = [];
  for (let n = 0; n < 12; n++) {
    await page.keyboard.press('Tab');
    stops.push(
      await page.evaluate(() => {
        const { activeElement: at } = document;
        if (!at || at === document.body) return 'end';
        const { outlineStyle, outlineWidth } = getComputedStyle(at);
        const seen = at.id === 'input' || (outlineStyle !== 'none' && outlineWidth !== '0px');
        return `${at.id || at.getAttribute('aria-label') || at.textContent.trim()}${seen ? '' : ' (not seen)'}`;
      }),
    );
    if (stops.at(-1) === 'input') break;
  }
  // The first step leaves the message box for the browser's own controls.
  if (stops[0] === 'end') stops.shift();
  expect(stops).toEqual([
    'Skip to the message box',
    'new-chat',
    'Hello',
    'Remove from the list: Hello',
    'language',
    'theme',
    'Copy',
    'attach',
    'input',
  ]);
});

test('every control has a name', async () => {
  await open();
  await chat.say('Hello');
  await chat.answer();
  const nameless = await chat.page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('button, input, select, textarea, a')]
      .filter((element) => element.checkVisibility())
      .filter((element) => {
        const labels =
          'labels' in element ? [...((element.labels as NodeListOf<HTMLElement> | null) ?? [])] : [];
        const name =
          element.getAttribute('aria-label') ??
          [element, ...labels].map((one) => one.textContent.trim()).join('');
        return name === '';
      })
      .map((element) => element.outerHTML),
  );
  expect(nameless).toEqual([]);
});
