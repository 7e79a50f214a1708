// The calls of one message: in order or together, their timeouts, what a tool is given.
import { describe, expect, it } from 'vitest';
import { success, type ToolContext } from '../../src/ports/tool.ts';
import { brief, gate, messagesOf, play, settled, start, steps, tool } from '../fakes/agent.ts';

/** A tool whose calls end when told to. */
function held(name: string, execution: 'parallel' | 'sequential') {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const running: string[] = [];
  const item = tool(
    name,
    async (_args, { callId }) => {
      running.push(callId);
      const opened = gate();
      gates.set(callId, opened);
      await opened.promise;
      return success(`${name} ${callId}`);
    },
    { execution },
  );
  return { item, running, end: (callId: string) => gates.get(callId)?.resolve() };
}

describe('a batch', () => {
  it('of parallel tools runs together: ends as they finish, results in call order', async () => {
    const { item, running, end } = held('p', 'parallel');
    const run = start({ script: [{ calls: [['p'], ['p'], ['p']] }, 'ok'], tools: [item] });
    await settled();
    expect(running).toEqual(['call_1', 'call_2', 'call_3']);
    // All starts are durable before any of them runs, and each result as soon as it is there.
    expect(steps(run.writes)).toEqual(['steered p1', 'assistant', 'tool_start', 'tool_start', 'tool_start']);
    end('call_3');
    await settled();
    expect(steps(run.writes).slice(5)).toEqual(['tool_result']);
    end('call_1');
    end('call_2');
    const result = await run.result;
    expect(
      run.events.flatMap((event) => (event.type === 'tool_execution_end' ? [event.call_id] : [])),
    ).toEqual(['call_3', 'call_1', 'call_2']);
    expect(brief(messagesOf(result)).slice(4, 7)).toEqual([
      'result p call_1',
      'result p call_2',
      'result p call_3',
    ]);
  });

  it.each<[string, Parameters<typeof start>[0]]>([
    ['with one sequential tool', {}],
    ['where the setting says so', { settings: { tool_execution: 'sequential' } }],
  ])('%s runs in order', async (_name, more) => {
    const p = held('p', 'parallel');
    const s = held('s', more?.settings ? 'parallel' : 'sequential');
    const run = start({ script: [{ calls: [['p'], ['s'], ['p']] }, 'ok'], tools: [p.item, s.item], ...more });
    await settled();
    expect([p.running, s.running]).toEqual([['call_1'], []]);
    p.end('call_1');
    await settled();
    expect([p.running, s.running]).toEqual([['call_1'], ['call_2']]);
    s.end('call_2');
    await settled();
    expect(p.running).toEqual(['call_1', 'call_3']);
    p.end('call_3');
    await run.result;
  });

  it('prepares in order, and refuses some while others run', async () => {
    const p = tool('p', undefined, { execution: 'parallel' });
    const { result, events } = await play({
      script: [{ calls: [['p', { n: 1 }], ['p', '{"n":'], ['nobody'], ['p', { n: 2 }]] }, 'ok'],
      tools: [p],
    });
    expect(events.flatMap((event) => (event.type === 'tool_execution_start' ? [event.call.id] : []))).toEqual(
      ['call_1', 'call_2', 'call_3', 'call_4'],
    );
    expect(
      brief(messagesOf(result))
        .slice(5, 9)
        .map((line) => line.slice(0, 20)),
    ).toEqual(['result {"n":1}', 'error The arguments ', 'error There is no to', 'result {"n":2}']);
  });
});

describe('a timeout', () => {
  it.each<[string, number | undefined, number]>([
    ['of the setting', undefined, 60_000],
    ['of the tool', 5_000, 5_000],
  ])('%s stops a tool that hangs', async (_name, timeoutMs, afterMs) => {
    const told = gate<unknown>();
    const hanging = tool(
      'hanging',
      (_args, { signal }) => {
        signal.addEventListener('abort', () => told.resolve(signal.reason));
        return new Promise(() => undefined);
      },
      timeoutMs === undefined ? {} : { timeoutMs },
    );
    const run = start({
      script: [{ calls: [['hanging']] }, 'ok'],
      tools: [hanging],
      settings: { tool_timeout_ms: 60_000 },
    });
    await settled();
    await run.clock.advance(afterMs - 1);
    expect(run.model.requests).toHaveLength(1);
    await run.clock.advance(1);
    const result = await run.result;
    expect(brief(messagesOf(result))[2]).toContain(`no result within ${afterMs / 1_000} s`);
    expect(result.reply).toBe('ok');
    await expect(told.promise).resolves.toBe('timeout');
    expect(run.clock.sleepers()).toBe(0);
  });

  it('is counted for each call by itself', async () => {
    const slow = held('slow', 'parallel');
    slow.item.timeoutMs = 9_000;
    const quick = held('quick', 'parallel');
    quick.item.timeoutMs = 3_000;
    const run = start({ script: [{ calls: [['slow'], ['quick']] }, 'ok'], tools: [slow.item, quick.item] });
    await settled();
    await run.clock.advance(4_000);
    slow.end('call_1');
    const result = await run.result;
    expect(brief(messagesOf(result)).slice(3, 5)).toEqual([
      'result slow call_1',
      expect.stringContaining('no result within 3 s'),
    ]);
  });

  it('of 0 is none', async () => {
    const slow = held('slow', 'sequential');
    const run = start({
      script: [{ calls: [['slow']] }, 'ok'],
      tools: [slow.item],
      settings: { tool_timeout_ms: 0 },
    });
    await settled();
    expect(run.clock.sleepers()).toBe(0);
    await run.clock.advance(1e9);
    slow.end('call_1');
    expect(brief(messagesOf(await run.result))[2]).toBe('result slow call_1');
  });
});

describe('a tool', () => {
  it('is told who asks, and where', async () => {
    let given: ToolContext | undefined;
    const curious = tool('curious', async (_args, context) => {
      given = context;
      // As tools do: the context is taken apart.
      const { progress } = context;
      progress('half way');
      return success('x', { display: 'Done!' });
    });
    const { events } = await play({ script: [{ calls: [['curious']] }, 'ok'], tools: [curious] });
    given?.progress('too late');
    expect(given).toMatchObject({
      conversation: 'test:chat',
      account: 'test',
      group: false,
      sender: { id: 'ann' },
      callId: 'call_1',
    });
    expect(given?.signal.aborted).toBe(false);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'tool_execution_progress', call_id: 'call_1', text: 'half way' }),
    );
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'tool_execution_end', display: 'Done!', name: 'curious' }),
    );
    expect(JSON.stringify(events)).not.toContain('too late');
  });

  it('that asks for its signal when it was stopped already gets an aborted one', async () => {
    const asked = gate<AbortSignal>();
    const late = tool('late', async (_args, context) => {
      await new Promise((resolve) => setImmediate(resolve));
      asked.resolve(context.signal);
      return success('x');
    });
    const run = start({ script: [{ calls: [['late']] }], tools: [late] });
    await Promise.resolve();
    await settled();
    run.cancel();
    await run.result;
    expect((await asked.promise).aborted).toBe(true);
  });

  it('with the name of another is left out, and that is logged', async () => {
    const { model, logs } = await play({ tools: [tool('a'), tool('a')] });
    expect(model.requests[0]!.tools).toHaveLength(1);
    expect(logs).toContainEqual(expect.objectContaining({ level: 'warn', fields: { tool: 'a' } }));
  });
});
