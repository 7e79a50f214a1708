// Taking a message back: the run that answers it is cancelled.
import type { RunControl } from '../ports/control.ts';
import type { ConversationReader } from '../ports/reader.ts';

export function createCancel(reader: ConversationReader, control: RunControl) {
  return async (conversation: string, message: string): Promise<boolean> => {
    const status = await reader.status(conversation, message);
    return status?.state === 'running' && (await control.cancel(conversation)) !== undefined;
  };
}
