// Repair on load: what is wrong with a stored context, and what the model gets instead.
import { describe, expect, it } from 'vitest';
import { repair } from '../../src/agent/pairing.ts';
import type { Block, Message } from '../../src/domain/messages.ts';
import { assistant, brief, user, violationsOf } from '../fakes/agent.ts';

const call = (id: string): Block => ({ type: 'tool_use', id, name: id, input: {} });
const result = (id: string): Block => ({ type: 'tool_result', tool_use_id: id, content: id });
const text = (value: string): Block => ({ type: 'text', text: value });
const asks = (...content: Block[]): Message => ({ role: 'assistant', content });
const gives = (...content: Block[]): Message => ({ role: 'user', content });
const MISSING = 'error The result of this call is missing: it may or may not have taken effect.';

describe('repair', () => {
  it('leaves what is valid as it is, the very same objects', () => {
    const messages = [
      user('a'),
      asks(text('t'), call('x'), call('y')),
      gives(result('x'), result('y')),
      assistant('b'),
    ];
    const repaired = repair(messages);
    expect(repaired).toEqual(messages);
    expect(repaired.every((message, n) => message === messages[n])).toBe(true);
  });

  it.each<[string, Message[], string[]]>([
    [
      'a missing result',
      [user('a'), asks(call('x')), assistant('b')],
      ['user: a', 'call x {}', MISSING, 'assistant: b'],
    ],
    ['a missing result at the end', [user('a'), asks(call('x'))], ['user: a', 'call x {}', MISSING]],
    [
      'one of two results missing, before a new message',
      [user('a'), asks(call('x'), call('y')), gives(result('y')), user('b')],
      ['user: a', 'call x {}', 'call y {}', MISSING, 'result y', 'user: b'],
    ],
    [
      'results in another order, behind text',
      [user('a'), asks(call('x'), call('y')), gives(text('and'), result('y'), result('x'))],
      ['user: a', 'call x {}', 'call y {}', 'result x', 'result y', 'user: and'],
    ],
    [
      'a result twice',
      [user('a'), asks(call('x')), gives(result('x'), result('x'))],
      ['user: a', 'call x {}', 'result x'],
    ],
    [
      'a result of no call',
      [user('a'), assistant('b'), gives(result('x'), text('c'))],
      ['user: a', 'assistant: b', 'user: c'],
    ],
    ['only results of no call', [user('a'), assistant('b'), gives(result('x'))], ['user: a', 'assistant: b']],
    ['the assistant first', [assistant('hello'), user('a')], ['user: a']],
    ['calls first, their call cut away', [gives(result('x')), user('a')], ['user: a']],
    [
      'the same role twice',
      [user('a'), user('b'), assistant('c'), assistant('d')],
      ['user: a', 'user: b', 'assistant: c', 'assistant: d'],
    ],
    [
      'empty text and empty messages',
      [user('a'), asks(text(''), text('b')), asks(), user('')],
      ['user: a', 'assistant: b'],
    ],
    [
      'the same id in two turns',
      [user('a'), asks(call('x')), gives(result('x')), asks(call('x')), gives(result('x')), assistant('b')],
      ['user: a', 'call x {}', 'result x', 'call x {}', 'result x', 'assistant: b'],
    ],
    [
      'the same id in one message',
      [
        user('a'),
        asks(call('x'), call('x')),
        gives(result('x'), { ...result('x'), content: 'second' } as Block),
      ],
      ['user: a', 'call x {}', 'call x {}', 'result x', 'result second'],
    ],
    [
      'a role of another world',
      [user('a'), { role: 'note' as 'user', content: [text('x')] }, assistant('b')],
      ['user: a', 'assistant: b'],
    ],
  ])('%s', (_name, messages, wanted) => {
    const before = structuredClone(messages);
    const repaired = repair(messages);
    expect(brief(repaired)).toEqual(wanted);
    expect(violationsOf(repaired)).toEqual([]);
    expect(messages).toEqual(before);
    // What is repaired stays as it is.
    expect(repair(repaired)).toEqual(repaired);
  });
});
