// Frames of Feishu's long connection, whatever they hold, over a real WebSocket to the vendor's client: nothing ends, nothing but
// messages is taken for one, and the next good event is answered. See the table in docs/threat-model.md.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { encodeFrame } from '../fakes/feishu-frames.ts';
import { startFeishu } from '../fakes/feishu-rig.ts';
import { messageEvent, recallEvent } from '../fakes/feishu-server.ts';

const { later } = useCleanups();

const frame = (payload: string, headers: Record<string, string>, method = 1) =>
  encodeFrame({ service: 7, method, headers, payload: Buffer.from(payload) });
/** The headers of an event in one frame. */
const WHOLE = { type: 'event', sum: '1', seq: '0' };
const event = (payload: unknown) => frame(JSON.stringify(payload), { ...WHOLE, message_id: 'frame_x' });

/** Of every kind that the platform sends. */
const GOOD = [
  event(messageEvent({ id: 'om_base', text: '你好' })),
  event(messageEvent({ id: 'om_group', group: true, type: 'post', content: { title: 'x', content: [[]] } })),
  event(recallEvent('om_base')),
  frame('{"PingInterval":60,"ReconnectCount":-1}', { type: 'pong' }, 0),
  frame('{"schema":"2.0"', { type: 'event', message_id: 'parts', sum: '2', seq: '0' }),
];

/** A frame of which a few bytes are changed, taken out or put in, or the end is missing. */
const mutated = fc
  .record({
    whole: fc.constantFrom(...GOOD),
    changes: fc.array(fc.record({ at: fc.nat(), cut: fc.nat(2), put: fc.uint8Array({ maxLength: 2 }) }), {
      maxLength: 4,
    }),
    missing: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(60)),
  })
  .map(({ whole, changes, missing }) => {
    let bytes = whole.subarray(0, whole.length - missing);
    for (const { at, cut, put } of changes) {
      const place = at % (bytes.length + 1);
      bytes = Buffer.concat([bytes.subarray(0, place), put, bytes.subarray(place + cut)]);
    }
    return bytes;
  });

/** An event of which one part is anything. */
const nearly = fc
  .record({
    part: fc.constantFrom('message_id', 'chat_id', 'chat_type', 'message_type', 'content', 'create_time', ''),
    value: fc.oneof(
      fc.anything(),
      fc.constantFrom<unknown>(null, true, 7, [], {}, '', '0', '{}', '[1]', '{"text":1}', 'post', 'group'),
    ),
  })
  .map(({ part, value }) => {
    const { event: inside, ...rest } = messageEvent();
    const { message, ...other } = inside as { message: object };
    return tryJson({
      ...rest,
      event: part === '' ? value : { ...other, message: { ...message, [part]: value } },
    });
  });

/** A frame that is well-formed, around anything. */
const odd = fc
  .record({
    payload: fc.oneof(
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.json(),
      { weight: 3, arbitrary: nearly },
      fc.anything().map((header) => tryJson({ ...messageEvent(), header })),
    ),
    headers: fc.oneof(
      { weight: 3, arbitrary: fc.string().map((id) => Object.assign({ message_id: `x${id}` }, WHOLE)) },
      fc.record(
        {
          type: fc.constantFrom('event', 'card', 'ping', 'pong', '__proto__'),
          message_id: fc.string(),
          sum: fc.constantFrom('0', '1', '2', '-1', 'x', '1e3'),
          seq: fc.constantFrom('0', '1', '-1', 'x'),
        },
        { requiredKeys: ['type'] },
      ),
    ),
    method: fc.constantFrom(1, 1, 1, 1, 0, 2),
  })
  .map(({ payload, headers, method }) => frame(payload, headers as Record<string, string>, method));

function tryJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    // A bigint.
    return '{';
  }
}

test('nothing ends, nothing else is a message, and the next good event is answered', async () => {
  const { server, accepted, connect, channel } = await startFeishu(later);
  await connect();
  const garbage = fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    mutated,
    odd,
  );
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(garbage, { minLength: 5, maxLength: 20 }), async (frames) => {
      for (const bytes of frames) server.sendRaw(bytes);
      const id = `om_good_${++serial}`;
      expect(await server.push(messageEvent({ id, text: 'still there?' }))).toBe(200);
      expect(accepted.filter((message) => message.id === id)).toMatchObject([{ text: 'still there?' }]);
      expect(server.connections()).toBe(1);
    }),
    { numRuns: 60, examples: [[[GOOD[0] as Buffer, ...GOOD]]] },
  );
  // What was changed may still be a message: then it is one in every part.
  expect(accepted.length).toBeGreaterThan(serial);
  for (const { id, chat, sender, text } of accepted) {
    for (const part of [id, chat, sender.id]) expect(part).toMatch(/./su);
    expect(typeof text).toBe('string');
  }
  expect(channel.status().state).toBe('connected');
});
