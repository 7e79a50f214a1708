// The demo model: says what it is, in the user's language, and shows a run with a tool.
import { describe, expect, it } from 'vitest';
import { createDemoClient } from '../../src/models/demo.ts';
import type { Message } from '../../src/domain/messages.ts';
import { callsIn, collect, nowTool, request, userSays } from '../fakes/models.ts';

const demo = createDemoClient({ name: 'demo', contextWindow: 1_000, maxOutputTokens: 100 });
const ask = (...messages: Message[]) => collect(demo, request({ tools: [nowTool], messages }));

describe('answers', () => {
  it('says in English that it is a demo, in several pieces', async () => {
    const { text, events, end } = await ask(userSays('[2026-11-30 Mon 11:30 GMT+8] Hello there'));
    expect(text).toContain('You said: "Hello there"');
    expect(text).toContain('I am a demo model');
    expect(events.filter((event) => event.type === 'text').length).toBeGreaterThan(3);
    expect(end).toMatchObject({ type: 'done', stop: 'stop', model: 'demo' });
  });

  it('says it in Chinese', async () => {
    const { text } = await ask(userSays('[2026-11-30 Mon 11:30 GMT+8] 你好'));
    expect(text).toContain('你说的是：“你好”');
    expect(text).toContain('演示模型');
  });

  it('stays out of the way of a test suite', async () => {
    const before = performance.now();
    await ask(userSays('hi'));
    expect(performance.now() - before).toBeLessThan(500);
  });
});

describe('the time', () => {
  it.each<[string, object]>([
    ['What time is it?', {}],
    ["what's the time in Tokyo", { zone: 'Asia/Tokyo' }],
    ['time in New York please', { zone: 'America/New_York' }],
    ['What time is it in Africa/Nairobi?', { zone: 'Africa/Nairobi' }],
    ['现在几点了？', {}],
    ['北京现在时间', { zone: 'Asia/Shanghai' }],
    ['[2026-11-30 Mon 11:30 GMT+8] 伦敦几点', { zone: 'Europe/London' }],
    ['今天星期几', {}],
  ])('%s', async (text, args) => {
    const { end } = await ask(userSays(text));
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use' });
    const [call] = callsIn(end);
    expect(call?.name).toBe('now');
    expect(JSON.parse(call?.arguments ?? '')).toEqual(args);
    expect(call?.id).toMatch(/^call_/);
  });

  it.each(['sometimes I wonder', 'I had a good time', 'hello'])('not asked for: %s', async (text) => {
    expect(callsIn((await ask(userSays(text))).end)).toEqual([]);
  });

  const run = (text: string, content: string, is_error = false): Message[] => [
    userSays(text),
    { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'now', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content, is_error }] },
  ];

  it('answers with the result', async () => {
    expect((await ask(...run('what time is it', '2026-11-30 12:00'))).text).toContain(
      'It is 2026-11-30 12:00.',
    );
    expect((await ask(...run('现在几点', '2026-11-30 12:00'))).text).toContain('现在是 2026-11-30 12:00。');
    expect((await ask(...run('what time is it', 'no such zone', true))).text).toContain(
      'failed: no such zone',
    );
  });

  it('asks again when asked again', async () => {
    const history = [
      ...run('what time is it', '12:00'),
      userSaid('It is 12:00.'),
      userSays('and what time is it now?'),
    ];
    expect(callsIn((await ask(...history)).end)).toHaveLength(1);
  });

  it('cannot look when there is no tool, or tools are off', async () => {
    const messages = [userSays('what time is it')];
    expect(callsIn((await collect(demo, request({ messages }))).end)).toEqual([]);
    const off = request({ messages, tools: [nowTool], allowTools: false });
    expect(callsIn((await collect(demo, off)).end)).toEqual([]);
  });
});

const userSaid = (text: string): Message => ({ role: 'assistant', content: [{ type: 'text', text }] });

it('stops when told to, with what it had said', async () => {
  const controller = new AbortController();
  const events = [];
  for await (const event of demo.stream(request(), controller.signal)) {
    events.push(event);
    controller.abort();
  }
  expect(events).toHaveLength(2);
  expect(events[1]).toMatchObject({ type: 'failed', stop: 'aborted', content: [{ type: 'text' }] });
});
