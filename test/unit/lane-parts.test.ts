// The lane's small parts: what the model is told of a message, who is called back, and how events travel.
import { describe, expect, test } from 'vitest';
import type { InboundMessage } from '../../src/domain/inbound.ts';
import type { RunEvent } from '../../src/domain/events.ts';
import { deliveriesOf } from '../../src/lane/merge.ts';
import { createPublisher } from '../../src/lane/publisher.ts';
import { createModelRenderer, storedContent } from '../../src/lane/render.ts';
import { silentLog } from '../fakes/log.ts';

const AT = Date.UTC(2026, 10, 30, 3, 30);
const message = (more: Partial<InboundMessage> = {}): InboundMessage => ({
  id: 'm1',
  conversation: 'webhook:c',
  account: 'webhook',
  at: AT,
  sender: { id: 'u1', name: '小明' },
  text: 'hello',
  busy: 'steer',
  ...more,
});

describe('rendering', () => {
  const toModel = createModelRenderer('Asia/Shanghai');

  test('the model is told when a direct message was sent', () => {
    const rendered = toModel({ content: storedContent(message()), at: AT });
    expect(rendered).toEqual({
      role: 'user',
      content: [{ type: 'text', text: '[2026-11-30 Mon 11:30 GMT+8] hello' }],
    });
  });

  test('and in a group who sent it', () => {
    const { sender } = message();
    const rendered = toModel({ content: storedContent(message()), at: AT, sender, group: true });
    expect(rendered.content).toEqual([{ type: 'text', text: '[2026-11-30 Mon 11:30 GMT+8] 小明: hello' }]);
  });

  test('attachments become blocks by reference, and a picture alone still gets the stamp', () => {
    const attachments: InboundMessage['attachments'] = [
      { type: 'image', ref: 'blob:1', media_type: 'image/png' },
      { type: 'audio', ref: 'blob:2', size: 7 },
    ];
    const content = storedContent(message({ text: '', attachments }));
    expect(content).toEqual([
      { type: 'image', media_type: 'image/png', ref: 'blob:1' },
      { type: 'file', media_type: 'application/octet-stream', name: 'audio', ref: 'blob:2', size: 7 },
    ]);
    expect(toModel({ content, at: AT }).content).toHaveLength(3);
  });

  test('a message without anything is still a message', () => {
    expect(storedContent(message({ text: '' }))).toEqual([{ type: 'text', text: '' }]);
  });
});

describe('deliveries', () => {
  const outcome = { status: 'done' as const, reply: { text: 'answer' } };
  const to = (url: string) => ({ key: url, address: { url } });

  test('each distinct target is called once, with all its messages and its newest address', () => {
    const taken = [
      message({ id: 'a', replyTo: to('x') }),
      message({ id: 'b' }),
      message({ id: 'c', replyTo: to('y') }),
      message({ id: 'd', replyTo: { key: 'x', address: { url: 'x', newest: true } } }),
    ];
    expect(deliveriesOf('r1', taken, outcome, AT)).toMatchObject([
      { id: 'r1.0', messages: ['a', 'd'], address: { url: 'x', newest: true }, reply: { text: 'answer' } },
      { id: 'r1.1', messages: ['c'], address: { url: 'y' } },
    ]);
  });

  test('nobody to call back: nothing to deliver', () => {
    expect(deliveriesOf('r1', [message()], outcome, AT)).toEqual([]);
  });
});

describe('publisher', () => {
  const base = { conversation: 'c', run: 'r', turn: 1 };
  const delta = (text: string): RunEvent => ({ ...base, type: 'message_update', delta: text });

  function recorder(fail = false) {
    const batches: RunEvent[][] = [];
    return {
      batches,
      log: {
        publish: (_conversation: string, events: RunEvent[]) => {
          batches.push(events);
          return fail ? Promise.reject(new Error('away')) : Promise.resolve();
        },
        position: () => Promise.resolve({ run: '0', end: '0' }),
        subscribe: () => Promise.reject(new Error('not here')),
      },
    };
  }

  test('joins consecutive deltas and sends one batch', async () => {
    const { batches, log } = recorder();
    const publisher = createPublisher(log, 'c', silentLog, 60_000);
    for (const text of ['a', 'b', 'c']) publisher.push(delta(text));
    publisher.push({ ...base, type: 'turn_start' });
    publisher.push(delta('d'));
    await publisher.flush();
    expect(batches).toEqual([[delta('abc'), { ...base, type: 'turn_start' }, delta('d')]]);
  });

  test('sends by itself after the interval', async () => {
    const { batches, log } = recorder();
    const publisher = createPublisher(log, 'c', silentLog, 1);
    publisher.push(delta('a'));
    await expect.poll(() => batches.length).toBe(1);
  });

  test('a failing log neither throws nor stops what comes after', async () => {
    const { batches, log } = recorder(true);
    const publisher = createPublisher(log, 'c', silentLog, 60_000);
    publisher.push(delta('a'));
    await publisher.flush();
    publisher.push(delta('b'));
    await publisher.flush();
    expect(batches).toHaveLength(2);
  });
});
