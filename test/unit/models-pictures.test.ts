// Pictures of the media store reach the models that can see, and are named for the others; on both vendors' strict fakes.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ModelSettings } from '../../config/schema.ts';
import { configSchema } from '../../config/schema.ts';
import type { ImageBlock, Message } from '../../src/domain/messages.ts';
import { createModels } from '../../src/models/index.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { createTestMedia, png, type TestMedia } from '../fakes/media.ts';
import { startModelServer, type ModelServer, type RecordedRequest } from '../fakes/model-server.ts';
import { picturesIn } from '../fakes/model/pictures.ts';
import { collect, fakeClock, fakeLog, nowTool, request, textIn, userSays } from '../fakes/models.ts';

const { later, track } = useCleanups();
let server: ModelServer;
let media: TestMedia;

beforeEach(async () => {
  server = track(await startModelServer());
  media = await createTestMedia(later);
});

const VENDORS = ['openai', 'anthropic'] as const;
type Vendor = (typeof VENDORS)[number];

interface Options {
  model?: Partial<ModelSettings>;
  store?: Pick<MediaStore, 'get'>;
  settings?: { max?: number; max_bytes?: number; total_bytes?: number };
}

function clientOf(vendor: Vendor, { model = {}, store = media, settings = {} }: Options = {}) {
  const log = fakeLog();
  const base_url = vendor === 'openai' ? server.openaiUrl : server.url;
  const config = configSchema.parse({
    model: 'main',
    models: { main: { provider: vendor, model: 'm', base_url, api_key: 'k', ...model } },
  });
  const pictures = { media: store, settings: { ...config.media.pictures, ...settings } };
  return { client: createModels(config, { clock: fakeClock(), log, pictures }).main(), log };
}

async function picture(text = ''): Promise<ImageBlock> {
  const { ref, media_type, size } = await media.put({ bytes: png(text) });
  return { type: 'image', ref, media_type, size };
}

const shows = (...content: Message['content']): Message => ({ role: 'user', content });
const bytesIn = ({ body }: RecordedRequest) => picturesIn(body).map(({ bytes }) => bytes.toString('base64'));
const base64 = (text = '') => png(text).toString('base64');

describe.each(VENDORS)('%s', (vendor) => {
  it('sees a picture of a message and one of a tool’s result; the history keeps the reference', async () => {
    const messages: Message[] = [
      shows({ type: 'text', text: 'look' }, await picture('message')),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'now', input: {} }] },
      shows({
        type: 'tool_result',
        tool_use_id: 'call_1',
        content: [{ type: 'text', text: 'a map' }, await picture('result')],
      }),
    ];
    const before = JSON.stringify(messages);
    const { client } = clientOf(vendor);
    const { end } = await collect(client, request({ messages, tools: [nowTool] }));
    expect(end).toMatchObject({ type: 'done' });
    expect(bytesIn(server.requests[0]!)).toEqual([base64('message'), base64('result')]);
    expect(JSON.stringify(messages)).toBe(before);
  });

  it('a model that can’t see is told that there was one', async () => {
    const { client } = clientOf(vendor, { model: { images: false } });
    await collect(client, request({ messages: [shows(await picture())] }));
    expect(bytesIn(server.requests[0]!)).toEqual([]);
    expect(server.requests[0]?.raw).toContain("(a picture, image/png; you can't see pictures)");
  });

  it('goes on in words when the vendor refuses a picture, and doesn’t send that one again', async () => {
    const good = await picture('good');
    const { client, log } = clientOf(vendor);
    await collect(client, request({ messages: [shows(good)] }));
    server.enqueue({
      status: 400,
      error: { type: 'invalid_request_error', message: 'Could not process image' },
    });
    const messages = [shows(good), userSays('and this?'), shows(await picture('bad'))];
    const { end } = await collect(client, request({ messages }));
    expect(end).toMatchObject({ type: 'done' });
    await collect(client, request({ messages }));
    expect(server.requests.map(bytesIn)).toEqual([
      [base64('good')],
      [base64('good'), base64('bad')],
      [base64('good')],
      [base64('good')],
    ]);
    expect(server.requests[2]?.raw).toContain('that could not be shown to you');
    expect(log.lines.some(({ message }) => message.includes('refused a picture'))).toBe(true);
  });

  it('an endpoint that knows no pictures answers all the same', async () => {
    const messages = [shows(await picture('a'), await picture('b'))];
    server.setScript(({ body }) =>
      picturesIn(body).length > 0
        ? { status: 400, error: { message: 'unknown variant `image_url`, expected `text`' } }
        : { text: 'fine' },
    );
    const { end } = await collect(clientOf(vendor).client, request({ messages }));
    expect(textIn(end)).toBe('fine');
    expect(server.requests).toHaveLength(2);
  });

  it('other refusals are not tried again', async () => {
    server.enqueue({ status: 400, error: { message: 'temperature is not supported' } });
    const { end } = await collect(clientOf(vendor).client, request({ messages: [shows(await picture())] }));
    expect(end).toMatchObject({ type: 'failed', error: { kind: 'invalid' } });
    expect(server.requests).toHaveLength(1);
  });

  it('a fallback that can’t see gets words, though the first one saw', async () => {
    const config = configSchema.parse({
      model: 'main',
      models: {
        main: { provider: vendor, model: 'm', base_url: server.url, api_key: 'k', fallbacks: ['blind'] },
        blind: { provider: 'openai', model: 'b', base_url: server.openaiUrl, api_key: 'k', images: false },
      },
    });
    config.agent.retry.attempts = 0;
    const pictures = { media, settings: config.media.pictures };
    const client = createModels(config, { clock: fakeClock(), log: fakeLog(), pictures }).main();
    server.enqueue({ status: 500, error: { message: 'down' } });
    const { end } = await collect(client, request({ messages: [shows(await picture())] }));
    expect(end).toMatchObject({ type: 'done' });
    expect(server.requests.map((sent) => bytesIn(sent).length)).toEqual([1, 0]);
  });
});

describe('bounds', () => {
  const raw = (n: number) => server.requests[n]?.raw ?? '';
  const messagesIn = (n: number) =>
    (server.requests[n]!.body['messages'] as unknown[]).map((one) => JSON.stringify(one));

  it('the newest pictures are shown; they leave in halves, so that most requests begin as the one before', async () => {
    const { client } = clientOf('openai', { settings: { max: 4 }, model: { flags: { merge_roles: false } } });
    const messages: Message[] = [];
    const counts: number[] = [];
    let stable = 0;
    for (let n = 0; n < 12; n++) {
      messages.push(shows(await picture(String(n))));
      await collect(client, request({ messages }));
      counts.push(bytesIn(server.requests[n]!).length);
      expect(bytesIn(server.requests[n]!).at(-1)).toBe(base64(String(n)));
      if (n > 0 && messagesIn(n).slice(0, -1).join() === messagesIn(n - 1).join()) stable++;
    }
    expect(counts).toEqual([1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3]);
    expect(stable).toBe(8);
    expect(raw(11)).toContain('older than those that are shown to you');
  });

  it('bytes in all, and of one', async () => {
    const size = png().length;
    const settings = { max_bytes: size + 10, total_bytes: 3 * size };
    const { client } = clientOf('openai', { settings });
    const large = await picture('x'.repeat(100));
    const messages = [
      shows(await picture(), large, await picture('1'), await picture('2'), await picture('3')),
    ];
    await collect(client, request({ messages }));
    expect(bytesIn(server.requests[0]!)).toEqual([base64('2'), base64('3')]);
    expect(raw(0)).toContain('too large to be shown');
    // Nothing is known of its size until it is read.
    const { size: _, ...unsized } = large;
    await collect(client, request({ messages: [shows(unsized)] }));
    expect(bytesIn(server.requests[1]!)).toEqual([]);
    expect(raw(1)).toContain('too large to be shown');
  });

  it('what has expired, is no picture, or can’t be read at the moment is named', async () => {
    const gone = await picture('gone');
    await rm(join(media.folder, gone.ref!.slice(6, 8), gone.ref!.slice(6)));
    const { ref, media_type } = await media.put({ bytes: Buffer.from('heic'), media_type: 'image/heic' });
    const messages = [
      shows(gone, { type: 'image', ref, media_type }, { type: 'image', ref: '/etc/passwd', media_type }),
    ];
    await collect(clientOf('openai').client, request({ messages }));
    expect(raw(0)).toContain('(a picture, image/png, that is no longer available)');
    expect(raw(0)).toContain('(a picture, image/heic, of a kind that can');
    expect(raw(0)).not.toContain('passwd');
    const store = { get: () => Promise.reject(new Error('disk away')) };
    const { client, log } = clientOf('openai', { store });
    expect((await collect(client, request({ messages: [shows(gone)] }))).end.type).toBe('done');
    expect(raw(1)).toContain("that can't be read at the moment");
    expect(log.lines.map(({ level }) => level)).toContain('warn');
  });

  it('public URLs are left to the vendor', async () => {
    const url = 'https://example.com/a.png';
    await collect(
      clientOf('openai').client,
      request({ messages: [shows({ type: 'image', ref: url, media_type: 'image/png' })] }),
    );
    expect(raw(0)).toContain(`"image_url":{"url":"${url}"}`);
  });
});
