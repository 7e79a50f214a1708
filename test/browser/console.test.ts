// The operator's page in a real Chromium: signing in, what is listed, sending a parked delivery again, both languages.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { Channel, ChannelStatus } from '../../src/ports/channel.ts';
import { ADMIN, KEY, startHttpApp, type HttpApp, type HttpAppOptions } from '../fakes/http-app.ts';
import { createTestToolset } from '../fakes/toolset.ts';
import { launchBrowser } from './support.ts';

let browser: Browser;
let http: HttpApp;
let context: BrowserContext;
const origins = new Set<string>();
const errors: string[] = [];
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());
afterEach(async () => {
  expect(errors.splice(0)).toEqual([]);
  expect([...origins]).toEqual([http.url]);
  origins.clear();
  await context.close();
  await http.close();
});

async function open(locale = 'en-US', options: HttpAppOptions = {}): Promise<Page> {
  http = await startHttpApp(options);
  context = await browser.newContext({ locale, viewport: { width: 360, height: 740 } });
  context.on('request', (request) => {
    // The empty icon is a data URL.
    if (!request.url().startsWith('data:')) origins.add(new URL(request.url()).origin);
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(error.message));
  await page.goto(`${http.url}/console`);
  return page;
}

async function signIn(page: Page): Promise<void> {
  await page.locator('#token').fill(ADMIN);
  await page.locator('form button').click();
  await page.getByRole('heading', { name: /Conversations|会话/ }).waitFor();
}

async function say(text: string, more: Record<string, unknown> = {}): Promise<void> {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', prefer: 'wait=10' },
    body: JSON.stringify({ conversation: 'c1', text, ...more }),
  });
  expect(response.status).toBe(200);
}

test('a wrong token is refused, the right one lets in, signing out ends it', async () => {
  const page = await open();
  await page.locator('#token').fill('wrong');
  await page.locator('form button').click();
  await page.getByText('This is not the admin token.').waitFor();
  await signIn(page);
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ name: 'lanekeeper_session', httpOnly: true, sameSite: 'Strict' });
  expect(cookie?.value).not.toContain(ADMIN);
  await page.reload();
  await page.getByRole('heading', { name: 'Channels' }).waitFor();
  await page.locator('#sign-out').click();
  await page.locator('#token').waitFor();
  expect(await context.cookies()).toEqual([]);
});

test('a conversation is read, cancelled and started over; what people wrote stays text', async () => {
  const page = await open();
  const evil = '<img src=x onerror="document.title=1"> hello';
  await say(evil);
  await signIn(page);
  await page.getByRole('button', { name: 'webhook:c1' }).click();
  await page.getByText(evil).waitFor();
  const held = say('hold');
  await vi.waitFor(() => expect(http.runs).toBe(2));
  await page.getByRole('button', { name: 'Back' }).click();
  await page.getByRole('button', { name: 'webhook:c1' }).click();
  await page.getByRole('button', { name: 'Cancel the run' }).click();
  await held;
  page.once('dialog', (dialog) => dialog.accept().catch(() => errors.push('dialog')));
  await page.getByRole('button', { name: 'Start over' }).click();
  await page.getByText(evil).waitFor({ state: 'detached' });
  expect(await page.title()).toBe('Lanekeeper');
});

test('a parked delivery is sent again', async () => {
  const page = await open();
  await say('hi', { callback_url: 'http://127.0.0.1:9/hook' });
  const claim = await http.storage.outbox.claim('webhook:c1', 60_000);
  if (claim.status !== 'claimed') throw new Error(claim.status);
  await http.storage.outbox.park(claim.lease, 'the receiver answered 410 Gone');
  await signIn(page);
  await page.getByText('the receiver answered 410 Gone').waitFor();
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByText('the receiver answered 410 Gone').waitFor({ state: 'detached' });
  expect(http.woken).toEqual(['webhook:c1']);
});

test('strangers are let in or refused, and taken back', async () => {
  const webhook = { type: 'webhook', api_keys: [KEY], access: { direct: 'pairing' } };
  const page = await open('en-US', { channels: { webhook } });
  const codes: string[] = [];
  for (const [id, name] of [
    ['u1', 'Ada'],
    ['u2', '<b>Bob</b>'],
  ]) {
    const response = await fetch(`${http.url}/webhook/webhook`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        conversation: `c-${id}`,
        text: 'hi',
        sender: { id, name },
        callback_url: 'https://example.org/hook',
      }),
    });
    const { reply } = (await response.json()) as { reply: { text: string } };
    codes.push(/[A-Z2-9]{8}/.exec(reply.text)?.[0] ?? 'no code');
  }
  await signIn(page);
  const row = (code?: string) => page.locator('#pairings li', { hasText: code ?? '' });
  await row(codes[0]).getByText('Ada (u1)').waitFor();
  await row(codes[1]).getByText('<b>Bob</b> (u2)').waitFor();
  await row(codes[0]).getByRole('button', { name: 'Let in' }).click();
  await row(codes[0]).getByText('let in by api').waitFor();
  expect(http.woken).toEqual(['webhook:c-u1']);
  expect(await http.storage.people.approved('webhook', 'u1')).toBe(true);
  await row(codes[1]).getByRole('button', { name: 'Refuse' }).click();
  await row(codes[1]).waitFor({ state: 'detached' });
  await row(codes[0]).getByRole('button', { name: 'Take back' }).click();
  await page.locator('#pairings').waitFor({ state: 'detached' });
  expect(await http.storage.people.list()).toEqual([]);
});

test('a message whose run failed is shown with its error, and asked again', async () => {
  const page = await open();
  await say('fail once <b>please</b>');
  await signIn(page);
  await page.getByText('model_failed: no route').waitFor();
  await page.getByText('fail once <b>please</b>').waitFor();
  await page.getByRole('button', { name: 'Ask again' }).click();
  await page.getByText('model_failed: no route').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'webhook:c1' }).click();
  await vi.waitFor(() => expect(http.runs).toBe(2));
});

test('a QR code is shown while an account waits for its login, and the code of the phone is taken', async () => {
  const entered: string[] = [];
  let status: ChannelStatus = { state: 'waiting_for_login', detail: 'scan it', qr: 'https://example.org/1' };
  const me: Channel = {
    account: 'me',
    type: 'weixin',
    start: async () => {},
    stop: async () => {},
    deliver: async () => ({ status: 'sent' }),
    status: () => status,
    async enterCode(code) {
      entered.push(code);
      status = { state: 'connected' };
    },
  };
  const page = await open('en-US', { more: [me] });
  await signIn(page);
  const picture = page.getByAltText('QR code that logs me in: scan it with WeChat');
  await picture.waitFor();
  const width = await picture.evaluate((image) =>
    (image as HTMLImageElement).decode().then(() => image.clientWidth),
  );
  expect(width).toBeGreaterThan(100);
  status = { ...status, asks: 'code' };
  await page.reload();
  await page.getByLabel('Code on the phone').fill('4711');
  await page.getByRole('button', { name: 'Enter' }).click();
  await picture.waitFor({ state: 'detached' });
  expect(entered).toEqual(['4711']);
});

test('the tools are listed: what is on, from where, for whom, and how the sources are', async () => {
  const { report } = createTestToolset({
    enabled: ['now', 'calculate', 'web_search'],
    offer_max: 2,
    rules: [{ tools: ['now'], accounts: ['webhook'], allow: false }],
    mcp: { servers: { far: { url: 'http://127.0.0.1:9/' } } },
  });
  const page = await open('en-US', { tools: report });
  await signIn(page);
  const tools = page.locator('section', { has: page.getByRole('heading', { name: 'Tools' }) });
  const sources = await tools.locator(':scope > ul > li').allInnerTexts();
  expect(sources).toEqual([
    expect.stringMatching(/^built-in\s+needs you\s+tools\.web_search\.provider is none/),
    expect.stringMatching(/^mcp:far\s+not needed yet$/),
  ]);
  await tools.getByText('On: 3').click();
  expect(await tools.locator('details li').allInnerTexts()).toEqual([
    expect.stringMatching(/^calculate\s+built-in\s+allowed for everyone$/),
    expect.stringMatching(
      /^now\s+built-in\s+refused for accounts webhook; allowed for everyone else\s+through find_tools$/,
    ),
    expect.stringMatching(/^web_search\s+built-in\s+allowed for everyone\s+through find_tools$/),
  ]);
});

test('speaks Chinese to a Chinese browser, and the other language on request', async () => {
  const page = await open('zh-CN');
  await page.getByText('管理令牌', { exact: true }).waitFor();
  await signIn(page);
  await page.getByRole('heading', { name: '搁置的投递' }).waitFor();
  await page.locator('#language').click();
  await page.getByRole('heading', { name: 'Parked deliveries' }).waitFor();
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  expect(overflow).toBe(false);
});
