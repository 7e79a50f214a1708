// Files on the chat page: attached and sent, and those that tools make, seen and downloaded; none of them does anything to the page.
import { readFile } from 'node:fs/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { success, type Tool } from '../../src/ports/tool.ts';
import { png } from '../fakes/media.ts';
import { picturesIn } from '../fakes/model/pictures.ts';
import { useChat, type ChatPage } from './support.ts';

const PAGE =
  '<!doctype html><script>window.opener ? (opener.pwned = 1) : (document.title = "pwned")</script>';

/** Makes a picture, a table, a page and a drawing with script in them. */
const maker: Tool = {
  name: 'make_files',
  description: 'Makes files.',
  parameters: { type: 'object' },
  idempotent: true,
  async execute(_args, { media }) {
    const files = [
      { bytes: png('made'), name: 'made.png' },
      { bytes: Buffer.from('a,b'), name: 'table.csv' },
      { bytes: Buffer.from(PAGE), name: 'page.html', media_type: 'text/html' },
      {
        bytes: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        name: 'a.svg',
      },
    ];
    return success('made', { attachments: await Promise.all(files.map((file) => media.put(file))) });
  },
};

const site = useChat({ tools: [maker], media: { max_bytes: 10_000 } });
let chat: ChatPage;
beforeEach(async () => {
  chat = await site.open();
});

const PICTURE = { name: 'cat.png', mimeType: 'image/png', buffer: png('a cat') };

/** Every picture of the transcript has been decoded. */
const shown = (count: number) =>
  chat.page.waitForFunction((wanted) => {
    const pictures = [...document.querySelectorAll<HTMLImageElement>('#messages img')];
    return pictures.length === wanted && pictures.every((picture) => picture.naturalWidth > 0);
  }, count);

describe('attaching', () => {
  test('a picture and a text: seen by the sender and by the model, also after a reload', async () => {
    const { page } = chat;
    await page
      .locator('#files')
      .setInputFiles([PICTURE, { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }]);
    await page.locator('.chip').nth(1).waitFor();
    // Also while they are on their way: the message waits for them.
    await chat.say('What is this?');
    await chat.answer();
    expect(await page.locator('.chip').count()).toBe(0);
    const sent = site.model.requests.at(-1)!;
    expect(picturesIn(sent.body).map(({ bytes }) => bytes.toString('base64'))).toEqual([
      png('a cat').toString('base64'),
    ]);
    expect(sent.raw).toContain('(a file: notes.txt, text/plain, 5 bytes)');
    await shown(1);
    await page.reload();
    await page.locator('.item.assistant').waitFor();
    await shown(1);
    expect((await chat.items())[0]).toContain('What is this?');
    expect(await page.locator('.item.user a.file').getAttribute('download')).toBe('notes.txt');
  });

  test('a file alone is a message; one that was taken out again is not sent', async () => {
    const { page } = chat;
    await page
      .locator('#files')
      .setInputFiles([PICTURE, { ...PICTURE, name: 'dog.png', buffer: png('a dog') }]);
    await page.locator('.chip').nth(1).waitFor();
    await page.getByRole('button', { name: 'Remove cat.png' }).click();
    await expect.poll(() => page.locator('#send').isEnabled()).toBe(true);
    await page.locator('#send').click();
    await chat.answer();
    const bytes = picturesIn(site.model.requests.at(-1)!.body).map(({ bytes: one }) =>
      one.toString('base64'),
    );
    expect(bytes).toEqual([png('a dog').toString('base64')]);
    expect(await page.title()).toContain('dog.png');
  });

  test('one that is too large says so, and keeps nothing from being sent', async () => {
    const { page } = chat;
    await page.locator('#files').setInputFiles([{ ...PICTURE, buffer: Buffer.alloc(10_001) }]);
    await page.locator('.chip.failed').waitFor();
    expect(await page.locator('.chip-state').innerText()).toBe('too large');
    await chat.say('Never mind');
    expect(await chat.answer()).toBe('echo: Never mind');
    expect(await page.locator('.chip').count()).toBe(0);
  });
});

describe('files that a tool makes', () => {
  test('a picture is shown, everything else is a download, live and from the history', async () => {
    const { page } = chat;
    await chat.say('use:make_files');
    await chat.answer();
    for (const reload of [false, true]) {
      if (reload) await page.reload();
      await page.locator('.item.assistant a.file').nth(2).waitFor();
      await shown(1);
      const files = page.locator('.item.assistant a.file');
      expect(await files.allInnerTexts()).toEqual([
        expect.stringMatching(/^table\.csv\s*3 B$/),
        expect.stringMatching(/^page\.html/),
        expect.stringMatching(/^a\.svg/),
      ]);
      const [download] = await Promise.all([page.waitForEvent('download'), files.first().click()]);
      expect(download.suggestedFilename()).toBe('table.csv');
      expect(await readFile(await download.path(), 'utf8')).toBe('a,b');
    }
  });

  test('a page or a drawing that is opened by its address is a download as well, and runs nothing', async () => {
    const { page } = chat;
    await chat.say('use:make_files');
    await chat.answer();
    const links = page.locator('.item.assistant a.file');
    for (const [n, name] of [
      [1, 'page.html'],
      [2, 'a.svg'],
    ] as const) {
      const href = await links.nth(n).getAttribute('href');
      const other = await page.context().newPage();
      const [download] = await Promise.all([
        other.waitForEvent('download'),
        other.goto(`${site.url}${href}`).catch((error: unknown) => {
          if (!String(error).includes('Download is starting')) throw error;
        }),
      ]);
      expect(download.suggestedFilename()).toBe(name);
      expect(await other.title()).toBe('');
      await other.close();
    }
    const picture = await page.locator('.item.assistant a.picture').getAttribute('href');
    const answer = await page.request.get(`${site.url}${picture}`);
    expect(answer.headers()).toMatchObject({
      'content-type': 'image/png',
      'content-security-policy': expect.stringContaining('sandbox') as string,
    });
    expect(await page.evaluate(() => 'pwned' in window)).toBe(false);
  });
});
