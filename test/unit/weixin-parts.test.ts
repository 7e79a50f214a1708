// The parts of the weixin channel that need no platform: keys and files, messages in, texts out.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decrypt,
  encrypt,
  encryptedSize,
  readHexKey,
  readKey,
  writeKey,
} from '../../channels/weixin/client/crypto.ts';
import { createApi } from '../../channels/weixin/client/api.ts';
import { troubleOf, WeixinError } from '../../channels/weixin/client/errors.ts';
import { parseMessage } from '../../channels/weixin/parse.ts';
import { createPeople } from '../../channels/weixin/people.ts';
import { partsOf } from '../../channels/weixin/render.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import { ZodError } from 'zod';
import { startWebServer } from '../fakes/web-server.ts';

const { later } = useCleanups();
const key = Buffer.from('00112233445566778899aabbccddeeff', 'hex');

describe('files', () => {
  test('AES-128-ECB with PKCS #7, as others write it', () => {
    // openssl enc -aes-128-ecb -K 00112233445566778899aabbccddeeff
    expect(encrypt(Buffer.from('hello'), key).toString('hex')).toBe('9d86c8612e085e93a235794a708af7a9');
    expect(encrypt(Buffer.alloc(16), key).toString('hex')).toBe(
      'fde4fbae4a09e020eff722969f83832b00657ea140655a44782747705d422fad',
    );
  });

  test('what was encrypted is read again, whatever its size', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const encrypted = encrypt(bytes, key);
        expect(encrypted).toHaveLength(encryptedSize(bytes.length));
        expect(decrypt(encrypted, key).equals(bytes)).toBe(true);
      }),
    );
    expect(() => decrypt(encrypt(Buffer.from('x'), key), Buffer.alloc(16))).toThrow();
    expect(() => decrypt(Buffer.alloc(15), key)).toThrow();
  });

  test('a key comes in both forms, and in no other', () => {
    expect(readKey(key.toString('base64'))).toEqual(key);
    expect(readKey(Buffer.from(key.toString('hex')).toString('base64'))).toEqual(key);
    expect(readKey(Buffer.from(key.toString('hex').toUpperCase()).toString('base64'))).toEqual(key);
    expect(readKey(writeKey(key))).toEqual(key);
    expect(readHexKey(key.toString('hex'))).toEqual(key);
    for (const wrong of ['', '!', Buffer.alloc(15).toString('base64'), Buffer.alloc(32).toString('base64')])
      expect(readKey(wrong)).toBeUndefined();
    expect(readHexKey(key.toString('hex').slice(1))).toBeUndefined();
  });
});

test.each([
  [0, 0, undefined],
  [undefined, undefined, undefined],
  [-14, 0, 'dead'],
  [0, -14, 'dead'],
  [-2, -14, 'dead'],
  [-2, 0, 'throttled'],
  [0, -2, 'throttled'],
  [-1, 0, 'refused'],
  [40001, undefined, 'refused'],
])('ret %j, errcode %j: %s', (ret, errcode, kind) => {
  expect(troubleOf(ret, errcode)?.kind).toBe(kind);
});

const text = (words: string, more: object = {}) => ({ type: 1, text_item: { text: words }, ...more });
const parse = (item_list: unknown[], more: object = {}) =>
  parseMessage(
    { message_id: '7', from_user_id: 'ada', message_type: 1, create_time_ms: 5, item_list, ...more },
    'bot',
    1_000,
  );
const read = (item_list: unknown[], more: object = {}) => {
  const parsed = parse(item_list, more);
  if ('ignored' in parsed) throw new Error(parsed.ignored);
  return parsed;
};

describe('messages in', () => {
  test('who, what, when, and where the answer goes', () => {
    expect(read([text('hello')], { context_token: 'c1', message_id: '18446744073709551615' })).toEqual({
      user: 'ada',
      context: 'c1',
      resources: [],
      message: {
        id: '18446744073709551615',
        chat: 'ada',
        sender: { id: 'ada' },
        text: 'hello',
        group: false,
        mentioned: true,
        replyTo: { key: 'ada', address: { user: 'ada' } },
        at: 5,
      },
    });
    expect(read([text('a')], { create_time_ms: undefined }).message.at).toBe(1_000);
    expect(read([text('a')], { message_id: 12 }).message.id).toBe('12');
  });

  test('without an id, the same message is known again, and another one told apart', () => {
    const id = (words: string) => read([text(words)], { message_id: undefined }).message.id;
    expect(id('a')).toBe(id('a'));
    expect(id('a')).not.toBe(id('b'));
  });

  test('the bot’s own messages and groups are left alone', () => {
    expect(parse([text('a')], { message_type: 2 })).toHaveProperty('ignored');
    expect(parse([text('a')], { from_user_id: 'bot' })).toHaveProperty('ignored');
    expect(parse([text('a')], { group_id: 'g' })).toHaveProperty('ignored');
    expect(parse([text('a')], { group_id: '' })).not.toHaveProperty('ignored');
  });

  test('quotes and transcripts', () => {
    const quoted = { message_item: text('first\nsecond') };
    expect(read([text('/new', { ref_msg: quoted })]).message).toMatchObject({
      quote: '> first\n> second',
      text: '/new',
    });
    expect(read([text('yes', { ref_msg: { title: 'a picture' } })]).message).toMatchObject({
      quote: '> a picture',
      text: 'yes',
    });
    expect(read([text('yes', { ref_msg: 7 })]).message).not.toHaveProperty('quote');
    const media = { encrypt_query_param: 'p', aes_key: key.toString('base64') };
    const picture = { title: '[Photo]', message_item: { type: 2, image_item: { media } } };
    const asked = read([text('what is it?', { ref_msg: picture })]);
    expect(asked.message).toMatchObject({ text: 'what is it?', quote: '> [Photo]' });
    expect(asked.resources).toMatchObject([{ type: 'image', file: { param: 'p', key } }]);
    const voice = read([{ type: 3, voice_item: { media, text: 'good morning', encode_type: 6 } }]);
    expect(voice.message.text).toBe('good morning');
    expect(voice.resources).toEqual([
      { type: 'audio', file: { url: undefined, param: 'p', key }, mediaType: 'audio/silk' },
    ]);
  });

  test('files, with their key in each form', () => {
    const hex = Buffer.from(key.toString('hex')).toString('base64');
    const { message, resources } = read([
      { type: 2, image_item: { media: { full_url: 'https://cdn/1' }, aeskey: key.toString('hex') } },
      { type: 4, file_item: { media: { encrypt_query_param: 'f', aes_key: hex }, file_name: 'plan.pdf' } },
      { type: 5, video_item: { media: { encrypt_query_param: 'v', aes_key: hex } } },
    ]);
    expect(message.text).toBe('');
    expect(resources).toEqual([
      { type: 'image', file: { url: 'https://cdn/1', param: undefined, key } },
      { type: 'file', file: { url: undefined, param: 'f', key }, name: 'plan.pdf' },
      { type: 'video', file: { url: undefined, param: 'v', key }, mediaType: 'video/mp4' },
    ]);
  });

  test('quotes within quotes, however deep, are left out', () => {
    let item: object = text('deepest');
    for (let depth = 0; depth < 20_000; depth++)
      item = text(`level ${depth}`, { ref_msg: { message_item: item } });
    expect(read([item]).message).toMatchObject({ text: 'level 19999', quote: '> level 19998' });
  });

  test('what can’t be read is named', () => {
    for (const items of [[], [7], [{ type: 99 }], [{ type: 1, text_item: 7 }]])
      expect(read(items).message.text).toBe('(a message that could not be read)');
  });

  test('whatever the platform hands over is a message, nothing, or refused', () => {
    const item = fc.oneof(
      fc.anything(),
      fc.record({
        type: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.anything()),
        text_item: fc.oneof(fc.record({ text: fc.string({ unit: 'binary' }) }), fc.anything()),
        image_item: fc.oneof(fc.record({ media: fc.anything(), aeskey: fc.string() }), fc.anything()),
        voice_item: fc.anything(),
        file_item: fc.record({ media: fc.record({ full_url: fc.string(), aes_key: fc.string() }) }),
        ref_msg: fc.oneof(fc.record({ title: fc.string(), message_item: fc.anything() }), fc.anything()),
      }),
    );
    const message = fc.record(
      {
        message_id: fc.oneof(fc.string({ minLength: 1 }), fc.double(), fc.anything()),
        from_user_id: fc.oneof(
          { weight: 9, arbitrary: fc.string({ unit: 'binary', minLength: 1 }) },
          fc.anything(),
        ),
        item_list: fc.oneof(fc.array(item), fc.anything()),
        create_time_ms: fc.oneof(fc.nat(), fc.double(), fc.anything()),
        group_id: fc.oneof({ weight: 9, arbitrary: fc.constant('') }, fc.anything()),
      },
      { requiredKeys: ['from_user_id'] },
    );
    let taken = 0;
    fc.assert(
      fc.property(fc.oneof(message, fc.anything()), (raw) => {
        try {
          const parsed = parseMessage(raw, 'bot', 1_000);
          if ('ignored' in parsed) return;
          taken += 1;
          expect(parsed.message.id).not.toBe('');
          expect(parsed.message.text.isWellFormed()).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(ZodError);
        }
      }),
      { numRuns: 1_000 },
    );
    expect(taken).toBeGreaterThan(50);
  });
});

test('whatever answers a call, it is a value or a WeixinError', async () => {
  let answer: { status: number; body: Buffer } = { status: 200, body: Buffer.alloc(0) };
  const server = await startWebServer((_request, response) => {
    response.writeHead(answer.status, { 'x-encrypted-param': 'p' }).end(answer.body);
  });
  later(() => server.close());
  const baseUrl = server.url;
  const api = createApi({ baseUrl, cdnUrl: baseUrl });
  const login = { token: 't', baseUrl, botId: 'bot', userId: '' };
  const { signal } = new AbortController();
  const message = { to: 'u', clientId: 'c', item: { type: 1 }, context: undefined };
  const calls: (() => Promise<unknown>)[] = [
    () => api.qrCode(signal),
    () => api.qrStatus(baseUrl, 'q', undefined, signal),
    () => api.updates(login, '', 1_000, signal),
    () => api.send(login, message, signal),
    () => api.typingTicket(login, 'u', undefined, signal),
    () => api.typing(login, 'u', 't', true, signal),
    () => api.upload(login, 'u', { kind: 'file', bytes: Buffer.from('x'), name: 'x' }, signal),
    () => api.download({ param: 'p', key: Buffer.alloc(16) }, 100, signal),
  ];
  const words = fc.constantFrom('wait', 'confirmed', 'scaned_but_redirect', '::', 'http://[', baseUrl);
  const likely = fc.record(
    {
      ret: fc.oneof(fc.constant(0), fc.anything()),
      errcode: fc.oneof(fc.constant(0), fc.integer(), fc.anything()),
      status: words,
      bot_token: words,
      ilink_bot_id: words,
      baseurl: words,
      redirect_host: words,
      upload_full_url: words,
      get_updates_buf: fc.oneof(words, fc.anything()),
      msgs: fc.anything(),
      longpolling_timeout_ms: fc.oneof(fc.double(), fc.anything()),
    },
    { requiredKeys: [] },
  );
  const json = fc.oneof(likely, fc.anything()).map((value) => {
    try {
      return Buffer.from(JSON.stringify(value) ?? 'undefined');
    } catch {
      // A bigint, or a value without a text.
      return Buffer.from('{');
    }
  });
  const bytes = fc.uint8Array({ maxLength: 60 }).map((some) => Buffer.from(some));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(200, 200, 200, 404, 500),
      fc.oneof(json, bytes),
      fc.constantFrom(...calls),
      async (status, body, call) => {
        answer = { status, body };
        await call().catch((error: unknown) => expect(error).toBeInstanceOf(WeixinError));
      },
    ),
    { numRuns: 400 },
  );
});

describe('what is known of people', () => {
  test('a typing ticket is kept for a day, a context token until the next; both for one bot', async () => {
    const values = new Map<string, unknown>();
    const state: ChannelState = {
      get: async (name) => values.get(name),
      set: async (name, value) => void values.set(name, value),
      delete: async (name) => void values.delete(name),
      lease: async () => true,
      release: async () => {},
    };
    let now = 1_000;
    const people = createPeople(state, () => now);
    let asked = 0;
    const ask = async () => `ticket-${++asked}`;
    expect(await people.ticket('bot', 'ada', ask)).toBe('ticket-1');
    now += 24 * 60 * 60 * 1000 - 1;
    expect(await people.ticket('bot', 'ada', ask)).toBe('ticket-1');
    now += 1;
    expect(await people.ticket('bot', 'ada', ask)).toBe('ticket-2');
    expect(await people.ticket('another-bot', 'ada', ask)).toBe('ticket-3');
    expect(await people.ticket('bot', 'bob', async () => undefined)).toBeUndefined();
    await people.heard('bot', 'ada', 'c1');
    await people.heard('bot', 'ada', 'c2');
    expect(await createPeople(state, () => now).context('bot', 'ada')).toBe('c2');
    expect(await people.context('another-bot', 'ada')).toBeUndefined();
  });
});

describe('texts out', () => {
  test('are plain, and whole where they fit', () => {
    expect(partsOf('# Hi\n\n**there** `x`')).toEqual(['Hi\n\nthere x']);
    expect(partsOf('  \n ')).toEqual([]);
    expect(partsOf('x'.repeat(4_000))).toHaveLength(1);
  });

  test('long ones are cut between paragraphs, and code stays together', () => {
    const paragraph = 'word '.repeat(300).trim();
    const code = Array.from({ length: 60 }, (_, n) => (n % 10 ? `line(${n});` : '')).join('\n');
    const parts = partsOf([paragraph, paragraph, `\`\`\`js\n${code}\n\`\`\``, paragraph].join('\n\n'));
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.some((part) => part.includes(code.trim()))).toBe(true);
    expect(parts.join('\n\n')).not.toContain('```');
  });

  test('whatever a model writes, each part fits and no word is lost', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.lorem({ maxCount: 40 }),
            fc.constant('```\ncode\n\ncode\n```'),
            fc.constant('😀'.repeat(2_500)),
          ),
        ),
        (paragraphs) => {
          const parts = partsOf(paragraphs.join('\n\n'));
          for (const part of parts) {
            expect(part.length).toBeLessThanOrEqual(4_000);
            expect(part.isWellFormed()).toBe(true);
          }
          const words = (whole: string) => whole.replaceAll(/```|\s/g, '');
          expect(words(parts.join(''))).toBe(words(paragraphs.join('')));
        },
      ),
    );
  });
});
