// The chat page in a real Chromium before the real server: everything composed as in production, on an SQLite file of its
// own, with the fake model and tools that a test holds and lets go.
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { composeServer } from '../../src/compose.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';

/** Where Debian has it; `npm test` names what it found. */
const CHROMIUM =
  process.env['CHROMIUM_PATH'] ||
  ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** A tool that runs until it is let go. */
export interface HeldTool {
  tool: Tool;
  /** Resolves when it was called. */
  called(): Promise<void>;
  /** Lets it go with this result, now or when it is called. */
  release(result: string): void;
  /** For the next test. */
  reset(): void;
}

export function heldTool(name: string): HeldTool {
  let called = Promise.withResolvers<void>();
  let result = Promise.withResolvers<string>();
  return {
    called: () => called.promise,
    release: (text) => result.resolve(text),
    reset() {
      called = Promise.withResolvers();
      result = Promise.withResolvers();
    },
    tool: {
      name,
      description: 'Takes its time.',
      parameters: { type: 'object', properties: { what: { type: 'string' } } },
      idempotent: true,
      async execute(_args, { signal, progress }) {
        progress('half of it is done');
        called.resolve();
        const aborted = Promise.withResolvers<never>();
        const abort = () => aborted.reject(signal.reason);
        signal.addEventListener('abort', abort, { once: true });
        try {
          return success(await Promise.race([result.promise, aborted.promise]));
        } finally {
          signal.removeEventListener('abort', abort);
        }
      },
    },
  };
}

export interface ChatServer {
  url: string;
  model: ModelServer;
  close(): Promise<void>;
}

interface ChatServerOptions {
  tools?: Tool[];
  web?: Record<string, unknown>;
  agent?: Record<string, unknown>;
  media?: Record<string, unknown>;
}

export async function startChatServer(options: ChatServerOptions = {}): Promise<ChatServer> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-browser-'));
  const model = await startModelServer();
  const tools = options.tools ?? [];
  const config = configSchema.parse({
    server: { port: 0, drain_seconds: 0 },
    storage: { data_dir: dir },
    model: 'fake',
    models: { fake: { provider: 'openai', model: 'fake-1', base_url: model.openaiUrl, api_key: 'sk-fake' } },
    agent: options.agent ?? {},
    media: options.media ?? {},
    tools: { enabled: tools.map(({ name }) => name) },
    channels: { web: { type: 'web', ...options.web } },
  });
  const file = join(dir, 'lanekeeper.db');
  const storage = await createSqliteStorage({ file, dedupeHours: 48, historyTtlDays: 0, log: silentLog });
  const server = await composeServer({
    config: () => config,
    storage,
    tools,
    prompt: () => Promise.resolve('You are a test.'),
    adminToken: 'test-admin-token',
    role: 'all',
    log: silentLog,
  });
  const { url } = await server.start();
  return {
    url,
    model,
    async close() {
      await server.stop();
      await model.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export interface ChatPage {
  page: Page;
  /** Types a text into the message box and presses Enter. */
  say(text: string): Promise<void>;
  /** Resolves when the n-th answer (from 1) is complete; with its text. */
  answer(n?: number): Promise<string>;
  /** The text of what is in the list of messages, one string an item. */
  items(): Promise<string[]>;
  /** Fails if the page made a mistake of its own: a script error, a forbidden request, a request to another host. */
  check(): Promise<void>;
  close(): Promise<void>;
}

export async function openChat(
  browser: Browser,
  url: string,
  { signedOut = false, ...options }: BrowserContextOptions & { signedOut?: boolean } = {},
): Promise<ChatPage> {
  const context = await browser.newContext({ locale: 'en-US', ...options });
  const origins = new Set<string>();
  const errors: string[] = [];
  context.on('request', (request) => origins.add(new URL(request.url()).origin));
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('dialog', (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => errors.push('a dialog could not be closed'));
  });
  page.on('console', (message) => {
    // A request that failed is reported as an error by the browser itself; that is what some tests are about.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      errors.push(message.text());
  });
  await page.goto(url);
  await page.locator(signedOut ? '#sign-in[open]' : '#welcome').waitFor();
  const answers = page.locator('.item.assistant:not(.live)');

  return {
    page,
    async say(text) {
      await page.locator('#input').fill(text);
      await page.locator('#input').press('Enter');
    },
    async answer(n = 1) {
      await answers.nth(n - 1).waitFor();
      await expect.poll(() => page.locator('#stop').isHidden(), { timeout: 10_000 }).toBe(true);
      return answers
        .nth(n - 1)
        .locator('.parts')
        .innerText();
    },
    items: () =>
      page
        .locator('#messages > .item')
        .evaluateAll((items) =>
          items.map((item) => (item.querySelector('.parts, .bubble, .notice p') ?? item).textContent.trim()),
        ),
    async check() {
      expect(errors).toEqual([]);
      expect([...origins]).toEqual([new URL(url).origin]);
    },
    close: () => context.close(),
  };
}

export interface ChatSite extends Pick<ChatServer, 'url' | 'model'> {
  /** A page of the server, or of what is before it; checked and closed after the test. */
  open(options?: BrowserContextOptions & { url?: string }): Promise<ChatPage>;
}

/** One browser and one server for the tests of a file. */
export function useChat(serverOptions: ChatServerOptions = {}): ChatSite {
  const { later } = useCleanups();
  let browser: Browser;
  let server: ChatServer;
  beforeAll(async () => {
    browser = await launchBrowser();
    server = await startChatServer(serverOptions);
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
  });
  return {
    get url() {
      return server.url;
    },
    get model() {
      return server.model;
    },
    async open({ url = server.url, ...options } = {}) {
      const chat = await openChat(browser, url, options);
      later(async () => {
        await chat.check();
        await chat.close();
      });
      return chat;
    },
  };
}
