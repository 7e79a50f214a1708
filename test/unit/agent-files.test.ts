// Files in the results of tools: pictures are kept by reference before anything is written down, and files for people go with
// the answer, once, also when the run was interrupted.
import { describe, expect, it } from 'vitest';
import type { ImageBlock, TextBlock } from '../../src/domain/messages.ts';
import type { JournalEntry } from '../../src/ports/store.ts';
import { success, type ToolAttachment, type ToolResult } from '../../src/ports/tool.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { messagesOf, play, start, tool } from '../fakes/agent.ts';
import { createTestMedia, png } from '../fakes/media.ts';

const { later } = useCleanups();

const draws = (data: string, media_type = 'image/png') =>
  tool('draw', async () =>
    success([
      { type: 'text', text: 'a map' },
      { type: 'image', media_type, data },
    ]),
  );

const resultIn = (played: Awaited<ReturnType<typeof play>>): (TextBlock | ImageBlock)[] => {
  const block = messagesOf(played.result)[2]?.content[0];
  if (block?.type !== 'tool_result' || typeof block.content === 'string') throw new Error('no such result');
  return block.content;
};

describe('pictures that a tool gives as base64', () => {
  it('are in the store, and everywhere else by reference', async () => {
    const media = await createTestMedia(later);
    const data = png('a map').toString('base64');
    // What was said of its type isn't believed.
    const played = await play({
      media,
      script: [{ calls: [['draw']] }, 'here'],
      tools: [draws(data, 'image/jpeg')],
    });
    const [, picture] = resultIn(played);
    expect(picture).toEqual({
      type: 'image',
      media_type: 'image/png',
      size: png('a map').length,
      ref: expect.stringMatching(/^media:/) as string,
    });
    expect((await media.get((picture as ImageBlock).ref!))?.bytes).toEqual(png('a map'));
    const { result, events, writes, model, logs } = played;
    for (const place of [result, events, writes, model.requests, logs])
      expect(JSON.stringify(place)).not.toContain(data.slice(0, 24));
  });

  it('are named when they are not taken, or when nothing can be kept', async () => {
    const data = png().toString('base64');
    const refusing = await createTestMedia(later, { maxBytes: 10 });
    for (const media of [refusing, undefined]) {
      const played = await play({
        ...(media && { media }),
        script: [{ calls: [['draw']] }, 'here'],
        tools: [draws(data)],
      });
      expect(resultIn(played)[1]).toMatchObject({
        type: 'text',
        text: expect.stringContaining('not kept') as string,
      });
      expect(JSON.stringify(played)).not.toContain(data);
    }
  });

  it('a store that fails is an error of the tool', async () => {
    const media = { ...(await createTestMedia(later)), put: () => Promise.reject(new Error('disk away')) };
    const { result } = await play({
      media,
      script: [{ calls: [['draw']] }, 'sorry'],
      tools: [draws(png().toString('base64'))],
    });
    expect(messagesOf(result)[2]?.content[0]).toMatchObject({
      is_error: true,
      content: expect.stringContaining('disk away') as string,
    });
  });

  it('that a hook brings are never written down either', async () => {
    const data = png().toString('base64');
    const media = await createTestMedia(later);
    const played = await play({
      media,
      script: [{ calls: [['plain']] }, 'here'],
      tools: [tool('plain')],
      hooks: { afterToolCall: () => ({ content: [{ type: 'image', media_type: 'image/png', data }] }) },
    });
    expect(JSON.stringify([played.result, played.writes, played.events])).not.toContain(data);
  });

  it('a cancel is felt while one is being kept', async () => {
    const media = { ...(await createTestMedia(later)), put: () => new Promise<never>(() => undefined) };
    const run = start({
      media,
      script: [{ calls: [['draw']] }, 'never'],
      tools: [draws(png().toString('base64'))],
      onEvent: (event, { cancel }) => {
        if (event.type === 'tool_execution_start') setImmediate(cancel);
      },
    });
    expect((await run.result).stop).toBe('aborted');
  });
});

describe('files for people', () => {
  const makes = (name: string, attachments: unknown[], more: Partial<ToolResult> = {}) =>
    tool(name, async () => success('made', { ...more, attachments: attachments as ToolAttachment[] }));

  it('go with the answer: in order, each once, at most ten', async () => {
    const media = await createTestMedia(later);
    const files = await Promise.all(
      Array.from({ length: 12 }, (_, n) => media.put({ bytes: Buffer.from(`${n}`), name: `${n}.csv` })),
    );
    const picture = await media.put({ bytes: png() });
    const { result, events, model } = await play({
      media,
      script: [{ calls: [['one'], ['two']] }, { calls: [['rest']] }, 'There you are.'],
      tools: [
        makes('one', [files[0], picture]),
        makes('two', [files[0], { ref: 'https://example.com/a.mp3', media_type: 'audio/mpeg' }]),
        makes('rest', files),
      ],
    });
    expect(result.attachments?.map(({ type, name }) => name ?? type)).toEqual([
      '0.csv',
      'image',
      'audio',
      ...[1, 2, 3, 4, 5, 6, 7].map((n) => `${n}.csv`),
    ]);
    expect(result.attachments?.[0]).toEqual({
      type: 'file',
      ref: files[0]!.ref,
      media_type: 'text/csv',
      name: '0.csv',
      size: 1,
    });
    expect(events.at(-1)).toMatchObject({ type: 'agent_end', attachments: result.attachments });
    expect(model.requests).toHaveLength(3);
  });

  it('what is none is left out, and a run without any has none', async () => {
    const wrong = [
      { type: 'file', ref: '/etc/passwd' },
      { type: 'file', ref: 'media:../../etc/passwd' },
      { type: 'file', ref: 'javascript:alert(1)' },
      { type: 'file' },
    ];
    const { result, events } = await play({
      script: [{ calls: [['bad']] }, 'ok'],
      tools: [makes('bad', wrong)],
    });
    expect(result).not.toHaveProperty('attachments');
    expect(events.at(-1)).not.toHaveProperty('attachments');
    expect(JSON.stringify(result)).not.toContain('passwd');
  });

  it('are in the journal with their result: a resumed run sends them without making them again', async () => {
    const media = await createTestMedia(later);
    const file = await media.put({ bytes: Buffer.from('x'), name: 'x.txt' });
    const script = [{ calls: [['make'], ['wait']] as [string][] }, 'done'];
    const whole = await play({ media, script, tools: [makes('make', [file]), tool('wait')] });
    const journal: JournalEntry[] = whole.writes.flat();
    const made = journal.findIndex(({ kind }) => kind === 'tool_result');
    for (const length of [made + 1, journal.length]) {
      const make = makes('make', [file]);
      const { result } = await play({
        media,
        script: length === journal.length ? ['done'] : [script[1]!],
        tools: [make, tool('wait', undefined, { idempotent: true })],
        resume: journal.slice(0, length),
      });
      expect(make.calls).toEqual([]);
      expect(result.attachments).toEqual([{ type: 'file', ...file }]);
    }
  });

  it('stay when a long result is cut for the history', async () => {
    const media = await createTestMedia(later);
    const file = await media.put({ bytes: Buffer.from('x'), name: 'x.txt' });
    const long = tool('long', async () => success('x'.repeat(500), { attachments: [file] }));
    const { result } = await play({
      media,
      script: [{ calls: [['long']] }, 'done'],
      tools: [long],
      settings: { tool_result_kept_chars: 200 },
    });
    expect(messagesOf(result)[2]?.content[0]).toMatchObject({ attachments: [{ ref: file.ref }] });
    expect(result.attachments).toHaveLength(1);
  });
});
