// Properties of every parser that takes bytes from outside: whatever comes, the answer is a value or one of our errors.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { fingerprint, toChannelMessage, webhookBodySchema } from '../../channels/webhook/parse.ts';
import { parseSecrets, sign, verifySignature } from '../../channels/webhook/verify.ts';
import { interpolate } from '../../config/interpolate.ts';
import { loadConfig } from '../../config/load.ts';
import { ConfigError } from '../../config/problems.ts';
import { accountOf, conversationId } from '../../src/domain/conversation.ts';
import { AppError } from '../../src/domain/errors.ts';
import { languageOf } from '../../src/domain/sentences.ts';
import { parseJson } from '../../src/http/body.ts';
import { waitSeconds } from '../../src/http/prefer.ts';
import { idOf, nameOf } from '../../src/storage/redis/keys.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'lanekeeper-properties-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Any UTF-16 code units, halves of surrogate pairs and control characters included. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 })
    .map((units) => String.fromCharCode(...units)),
);
const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };

function valueOrError<T>(run: () => T, codes: string[]): T | undefined {
  try {
    return run();
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    expect(codes).toContain((error as AppError).code);
    return undefined;
  }
}

describe('JSON bodies', () => {
  it('are values or malformed_json, whatever the bytes', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.json().map((text) => Buffer.from(text)),
        ),
        (bytes) => {
          valueOrError(() => parseJson(Buffer.from(bytes)), ['malformed_json']);
        },
      ),
    );
  });
});

describe('webhook bodies', () => {
  const nearly = fc.record(
    {
      conversation: fc.oneof(anyText, fc.anything()),
      text: fc.oneof(anyText, fc.anything()),
      sender: fc.oneof(fc.record({ id: anyText, name: anyText }, { requiredKeys: ['id'] }), fc.anything()),
      group: fc.oneof(fc.boolean(), fc.anything()),
      attachments: fc.oneof(fc.array(fc.record({ url: fc.webUrl(), name: anyText })), fc.anything()),
      callback_url: fc.oneof(fc.webUrl(), anyText),
    },
    { requiredKeys: ['conversation', 'text'] },
  );

  it('are taken as well-formed messages, or refused', () => {
    let taken = 0;
    fc.assert(
      fc.property(
        fc.oneof(
          fc.anything(),
          fc.json().map((text) => JSON.parse(text) as unknown),
          nearly,
        ),
        (body) => {
          const parsed = webhookBodySchema.safeParse(body);
          if (!parsed.success) return;
          taken++;
          const message = toChannelMessage('webhook', 'm1', parsed.data);
          expect(message.text.isWellFormed()).toBe(true);
          expect(message.chat.isWellFormed()).toBe(true);
          expect(message.chat).not.toBe('');
          expect(fingerprint(message)).toBe(fingerprint(structuredClone(message)));
        },
      ),
      { numRuns: 400 },
    );
    expect(taken).toBeGreaterThan(0);
  });
});

describe('signatures', () => {
  const keys = parseSecrets('webhook', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
  const now = 1_796_000_000_000;

  it('that we did not make are refused, whatever they look like', () => {
    const header = fc.option(
      fc.oneof(
        anyText,
        fc.constant(String(now / 1000)),
        fc.base64String().map((text) => `v1,${text}`),
      ),
      { nil: undefined },
    );
    fc.assert(
      fc.property(header, header, header, fc.uint8Array(), (id, timestamp, signature, body) => {
        const verify = () => verifySignature(keys, { id, timestamp, signature }, body, now);
        expect(verify).toThrow(AppError);
        valueOrError(verify, ['signature_invalid', 'signature_expired']);
      }),
    );
  });

  it('of ours hold for their own bytes only', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!-~]{1,40}$/), fc.uint8Array(), fc.uint8Array(), (id, body, other) => {
        const headers = sign(keys, id, body, now);
        const signed = {
          id,
          timestamp: headers['webhook-timestamp'],
          signature: headers['webhook-signature'],
        };
        verifySignature(keys, signed, body, now);
        if (Buffer.compare(body, other) !== 0)
          expect(() => verifySignature(keys, signed, other, now)).toThrow(AppError);
      }),
    );
  });

  it('secrets are keys or config_invalid', () => {
    fc.assert(
      fc.property(anyText, (text) => void valueOrError(() => parseSecrets('a', text), ['config_invalid'])),
    );
  });
});

describe('headers and ids', () => {
  it('Prefer is a bounded number of seconds', () => {
    const prefer = fc.oneof(
      anyText,
      fc.nat().map((n) => `respond-async, wait=${n}`),
    );
    fc.assert(
      fc.property(prefer, (header) => {
        const seconds = waitSeconds(header);
        expect(Number.isInteger(seconds) && seconds >= 0 && seconds <= 300).toBe(true);
      }),
    );
  });

  it('conversation ids keep their account and chat', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,20}$/), anyText, (account, chat) => {
        const id = conversationId(account, chat);
        expect(accountOf(id)).toBe(account);
        expect(id.slice(account.length + 1)).toBe(chat);
      }),
    );
  });

  it('names in Redis are safe, and no two ids share one', () => {
    fc.assert(
      fc.property(anyText, anyText, (id, other) => {
        const name = nameOf(id);
        expect(idOf(name)).toBe(id);
        expect(name.isWellFormed()).toBe(true);
        expect(name).not.toMatch(/\p{Cc}/u);
        if (id !== other) expect(nameOf(other)).not.toBe(name);
      }),
    );
  });

  it('the language of a text is one of ours', () => {
    fc.assert(fc.property(anyText, (text) => ['zh', 'en'].includes(languageOf(text))));
  });
});

describe('ids and cursors that a reader gives back', () => {
  it('lead to a page or a resync, never to an error', async () => {
    const file = join(folder, 'cursors.db');
    const storage = await createSqliteStorage({ file, dedupeHours: 1, historyTtlDays: 0, log: silent });
    try {
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(anyText, fc.stringMatching(/^\d+-\d+$/), fc.stringMatching(/^\d+:.*$/)),
          async (id) => {
            await storage.reader.history('a:b', { cursor: id, limit: 3 });
            await storage.reader.list({ cursor: id, limit: 3 });
            await storage.outbox.list({ state: 'parked', cursor: id, limit: 3 });
            const end = new AbortController();
            const events = await storage.events.subscribe('a:b', { after: id, signal: end.signal });
            end.abort();
            for await (const item of events) expect(typeof item.id).toBe('string');
          },
        ),
      );
    } finally {
      await storage.close();
    }
  });
});

describe('the configuration', () => {
  it('takes references as they are meant, and tells of others', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          anyText,
          anyText.map((text) => `\${${text}}`),
        ),
        anyText,
        (text, value) => {
          const { value: filled, problems } = interpolate({ key: text }, { NAME: value });
          expect(typeof (filled as { key: unknown }).key).toBe('string');
          for (const { found, allowed } of problems) expect(found !== '' && allowed !== '').toBe(true);
          // What comes from the environment is never looked at again.
          expect(interpolate('${NAME}', { NAME: value }).value).toBe(value);
        },
      ),
    );
  });

  it('is valid, or an error that names the problem, whatever the environment holds', () => {
    const likely = fc.constantFrom(
      '3000',
      '-1',
      '0x10',
      '::1',
      'redis://h:1/0',
      'rediss://',
      'debug',
      '1e3',
      './x',
    );
    const value = fc.option(fc.oneof(likely, anyText), { nil: undefined });
    const names = ['HOST', 'PORT', 'ADMIN_TOKEN', 'LOG_LEVEL', 'REDIS_URL', 'LANEKEEPER_DATA_DIR'];
    let valid = 0;
    fc.assert(
      fc.property(fc.record(Object.fromEntries(names.map((name) => [name, value]))), (env) => {
        try {
          const { config } = loadConfig({ env, cwd: folder });
          valid += 1;
          expect(Number.isInteger(config.server.port) && config.server.port >= 0).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as Error).message).toMatch(/environment variable [A-Z_]+/);
        }
      }),
      { numRuns: 60, examples: [[Object.fromEntries(names.map((name) => [name, undefined]))]] },
    );
    expect(valid).toBeGreaterThan(0);
  });

  it('is valid, or an error that names the problem, whatever the file holds', () => {
    const keys = fc.constantFrom('server', 'workers', 'models', 'channels', 'agent', 'port', 'tools', 'type');
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 3 },
        fc.oneof(
          fc.integer(),
          fc.boolean(),
          fc.string(),
          fc.constant(null),
          fc.constantFrom('webhook', 'web'),
        ),
        fc.dictionary(keys, tie('node'), { maxKeys: 4 }),
        fc.array(tie('node'), { maxLength: 3 }),
      ),
    })).node;
    const file = join(folder, 'fuzz.yaml');
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ maxLength: 80 }),
          tree.map((value) => JSON.stringify(value)),
        ),
        (text) => {
          writeFileSync(file, text);
          try {
            loadConfig({ env: { LANEKEEPER_CONFIG: file }, cwd: folder });
          } catch (error) {
            expect(error).toBeInstanceOf(ConfigError);
            expect((error as Error).message).toMatch(/\S/);
          }
        },
      ),
      { numRuns: 150 },
    );
  });
});
