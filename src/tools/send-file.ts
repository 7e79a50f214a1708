// The `send_file` tool: a text that the model wrote goes to the user as a file. It takes the content itself and no path, so that
// nothing of the server's own files can be sent. Off by default: files cost space and attention.
import type { ToolSettings } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import { fail, success, type Tool } from '../ports/tool.ts';

export function createSendFileTool({ max_bytes }: ToolSettings['send_file']): Tool {
  return {
    name: 'send_file',
    description:
      'Sends the user a text file with your answer: a table, a program, notes. For what they want as a file or what is too long to read in a chat. Don’t repeat its content in the answer.',
    parameters: {
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 1, maxLength: 120, description: 'For example prices.csv' },
        content: { type: 'string', minLength: 1, description: 'The whole text of the file.' },
      },
      required: ['name', 'content'],
      additionalProperties: false,
    },
    // The same text is the same file, and a file goes out once with the answer.
    idempotent: true,
    timeoutMs: 30_000,
    async execute(args, { media }) {
      const bytes = Buffer.from(String(args['content']));
      if (bytes.length > max_bytes)
        return fail(`The file would have ${bytes.length} bytes; ${max_bytes} are allowed. Send less.`);
      try {
        const file = await media.put({ bytes, media_type: 'text/plain', name: String(args['name']) });
        const name = file.name ?? 'file.txt';
        return success(`The file ${name} (${file.size} bytes) goes to the user with your answer.`, {
          display: name,
          attachments: [{ ...file, type: 'file', name }],
        });
      } catch (error) {
        if (error instanceof AppError && error.code === 'media_refused') return fail(error.message);
        throw error;
      }
    },
  };
}
