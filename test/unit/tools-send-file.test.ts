// send_file: the model's text becomes a file for the user; nothing else of the server can.
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { createSendFileTool } from '../../src/tools/send-file.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { brief, messagesOf, play } from '../fakes/agent.ts';
import { createTestMedia } from '../fakes/media.ts';

const { later } = useCleanups();

async function sending(args: Record<string, unknown>, { maxBytes = 1_000, max_bytes = 500 } = {}) {
  const media = await createTestMedia(later, { maxBytes });
  const played = await play({
    media,
    tools: [createSendFileTool({ max_bytes })],
    script: [{ calls: [['send_file', args]] }, 'Here it is.'],
  });
  return { media, ...played, said: brief(messagesOf(played.result)) };
}

describe('send_file', () => {
  it('sends a text under its name, of the type that the name tells', async () => {
    const { result, media, said } = await sending({ name: 'prices.csv', content: 'a,b\n1,2' });
    expect(result.attachments).toEqual([
      {
        type: 'file',
        ref: expect.stringMatching(/\.csv$/) as string,
        name: 'prices.csv',
        media_type: 'text/csv',
        size: 7,
      },
    ]);
    expect((await media.get(result.attachments![0]!.ref))?.bytes.toString()).toBe('a,b\n1,2');
    expect(said).toContain('result The file prices.csv (7 bytes) goes to the user with your answer.');
  });

  it('takes a name for a name, not for a place: no file of the server is ever read', async () => {
    const { result, media } = await sending({ name: '../../etc/passwd', content: 'mine' });
    expect(result.attachments).toMatchObject([{ name: 'passwd', media_type: 'text/plain' }]);
    expect((await media.get(result.attachments![0]!.ref))?.bytes.toString()).toBe('mine');
    const other = await sending({ path: '/etc/passwd' });
    expect(other.said).toContainEqual(expect.stringMatching(/^error /));
    expect(other.result).not.toHaveProperty('attachments');
  });

  it.each([
    ['longer than it may be', { content: '价'.repeat(200) }, {}, /600 bytes; 500 are allowed/],
    [
      'more than the store takes',
      { content: 'x'.repeat(400) },
      { maxBytes: 100 },
      /400 bytes; 100 are allowed/,
    ],
    ['empty', { content: '' }, {}, /content/],
  ])('a text that is %s is refused, and the model is told why', async (_what, args, limits, reason) => {
    const { said, result } = await sending({ name: 'a.txt', ...args }, limits);
    expect(said).toContainEqual(expect.stringMatching(reason));
    expect(result).not.toHaveProperty('attachments');
  });

  it('is off unless it is asked for', () => {
    expect(configSchema.parse({}).tools.enabled).not.toContain('send_file');
  });
});
