// Reads server-sent events off a response, as the HTML standard says.

export interface ReadEvent {
  id?: string;
  event: string;
  data: string;
}

/** Ends when the response does; leaving the loop early closes the connection. Comments are skipped. */
export async function* readEvents(response: Response): AsyncGenerator<ReadEvent, undefined, undefined> {
  if (!response.body) return;
  let text = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
}

function parse(block: string): ReadEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split('\n')) {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (name === '') continue;
    const before = fields.get(name);
    fields.set(name, name === 'data' && before !== undefined ? `${before}\n${value}` : value);
  }
  const data = fields.get('data');
  if (data === undefined) return undefined;
  const id = fields.get('id');
  return { event: fields.get('event') ?? 'message', data, ...(id === undefined ? {} : { id }) };
}
