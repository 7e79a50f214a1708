// Who may use which tool: rules, in order, for everybody whose message the run has taken.
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { createPermissions } from '../../src/tools/permissions.ts';

/** `admins`: as `<account>:<sender id>`. */
const permissions = (rules: unknown[], admins: string[] = []) =>
  createPermissions(configSchema.parse({ tools: { rules } }).tools.rules, (account, sender) =>
    admins.includes(`${account}:${sender}`),
  );

const user = (conversation: string, ...ids: string[]) => ({
  conversation,
  people: ids.map((id) => ({ id })),
});

const may = (
  granted: ReturnType<typeof permissions>,
  tool: string | string[],
  conversation: string,
  ...people: string[]
) => granted.refusal([tool].flat(), user(conversation, ...people)) === undefined;

describe('rules', () => {
  it('let everyone use a tool that none of them speaks of', () => {
    const granted = permissions([{ tools: ['web_fetch'], allow: false }]);
    expect(may(granted, 'now', 'feishu:oc_1', 'ann')).toBe(true);
    expect(may(granted, 'web_fetch', 'feishu:oc_1', 'ann')).toBe(false);
  });

  it('are tried in order, and the first that fits decides', () => {
    const granted = permissions(
      [
        { tools: ['shell'], roles: ['admin'], allow: true },
        { tools: ['shell'], allow: false },
      ],
      ['feishu:ann'],
    );
    expect(may(granted, 'shell', 'feishu:oc_1', 'ann')).toBe(true);
    expect(may(granted, 'shell', 'feishu:oc_1', 'bob')).toBe(false);
  });

  it('know a person by account and id: the same id elsewhere is somebody else', () => {
    const granted = permissions([{ roles: ['member'], allow: false }], ['feishu:ann']);
    expect(may(granted, 'now', 'feishu:x', 'ann')).toBe(true);
    expect(may(granted, 'now', 'webhook:x', 'ann')).toBe(false);
    expect(may(granted, 'now', 'webhook:feishu:ann', 'ann')).toBe(false);
  });

  it.each([
    [{ accounts: ['feishu*'] }, true],
    [{ accounts: ['wechat'] }, false],
    [{ chats: ['oc_1'] }, true],
    [{ chats: ['oc_1:thread'] }, true],
    [{ chats: ['oc'] }, false],
    [{ chats: ['oc_1:other'] }, false],
    [{ people: ['feishu-a:ann'] }, true],
    [{ people: ['feishu-a:*'] }, true],
    [{ people: ['ann'] }, false],
    [{ roles: ['member'] }, true],
    [{ roles: ['admin'] }, false],
    [{ tools: ['n.w'] }, false],
    [{ tools: ['n*w'] }, true],
    [{ accounts: ['feishu-a'], chats: ['oc_2'] }, false],
  ])('with %j fit a call of ann in feishu-a:oc_1:thread: %s', (condition, fits) => {
    const granted = permissions([{ ...condition, allow: false }]);
    expect(may(granted, 'now', 'feishu-a:oc_1:thread', 'ann')).toBe(!fits);
  });

  it('refuse a call when one of several people may not make it', () => {
    const granted = permissions([{ roles: ['member'], allow: false }], ['feishu:ann']);
    expect(may(granted, 'now', 'feishu:x', 'ann', 'bob')).toBe(false);
  });

  it('hold a tool by its name at its source too, whatever it is offered as', () => {
    const granted = permissions([{ tools: ['mcp:files/*'], allow: false }]);
    expect(may(granted, ['files_read', 'mcp:files/read'], 'a:b', 'ann')).toBe(false);
  });

  it('are refused with words for the model that give nothing away', () => {
    const granted = permissions([{ tools: ['now'], people: ['a:secret'], allow: false }]);
    const reason = granted.refusal(['now'], user('a:b', 'secret'));
    expect(reason).toMatch(/now is not allowed/);
    expect(reason).not.toContain('secret');
  });

  it.each([
    [[], 'other', ['allowed for everyone']],
    [[{ allow: false }], 'now', ['refused for everyone']],
    [
      [
        { tools: ['now'], accounts: ['web'], roles: ['admin'], allow: true },
        { tools: ['now'], allow: false },
        { tools: ['now'], people: ['web:ann'], allow: true },
      ],
      'now',
      ['allowed for accounts web; roles admin', 'refused for everyone else'],
    ],
    [[{ chats: ['oc_1'], allow: false }], 'now', ['refused for chats oc_1', 'allowed for everyone else']],
  ])('%j are told of %s in words, as far as they can decide', (rules, tool, words) => {
    expect(permissions(rules).describe([tool])).toEqual(words);
  });
});
