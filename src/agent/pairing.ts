// Repair on load: whatever a context holds (an older format, a crash, a hook's work), what leaves here is valid for every
// vendor: the first message is the user's, roles alternate, ids of calls are unique, and each tool_use has exactly one
// tool_result with its id, in call order, at the start of the next message.
import type { Block, Message, ToolResultBlock, ToolUseBlock } from '../domain/messages.ts';

const MISSING_RESULT = 'The result of this call is missing: it may or may not have taken effect.';

/** A call without its result so far; `was` is the id that its result carries. */
interface OpenCall {
  call: ToolUseBlock;
  was: string;
}

/** A new list; `ids` learns the ids of all calls. Messages that were fine are the same objects, and the given ones are never changed. */
export function repair(messages: readonly Message[], ids: CallIds = new Map()): Message[] {
  const out: Message[] = [];
  let open: OpenCall[] = [];
  for (const message of messages) {
    if (message.role === 'assistant') {
      // Vendors want the user to begin.
      if (out.length === 0) continue;
      const cleaned = sayable('assistant', message.content);
      if (cleaned.length === 0) continue;
      if (open.length > 0) appendTo(out, { role: 'user', content: open.map(missing) });
      open = openCalls(cleaned, ids);
      appendTo(out, withContent(message, renamed(cleaned, open)));
    } else if (message.role === 'user') {
      const content = paired(message.content, open);
      open = [];
      if (content.length > 0) appendTo(out, withContent(message, content));
    }
  }
  if (open.length > 0) appendTo(out, { role: 'user', content: open.map(missing) });
  return out;
}

/** Appends, merging with the last message if it has the same role. */
export function appendTo(messages: Message[], message: Message): void {
  const last = messages.at(-1);
  if (last?.role === message.role) messages[messages.length - 1] = merged(last, message);
  else messages.push(message);
}

/** Results come first: vendors want them right after the calls. */
function merged(a: Message, b: Message): Message {
  const content = [...a.content, ...b.content];
  if (!b.content.some(isResult)) return { role: a.role, content };
  return {
    role: a.role,
    content: [...content.filter(isResult), ...content.filter((block) => !isResult(block))],
  };
}

const isResult = (block: Block): block is ToolResultBlock => block.type === 'tool_result';

const withContent = (message: Message, content: Block[]): Message =>
  content === message.content ? message : { role: message.role, content };

const missing = ({ call }: OpenCall): ToolResultBlock => ({
  type: 'tool_result',
  tool_use_id: call.id,
  content: MISSING_RESULT,
  is_error: true,
});

/** A user message's content with one result for each open call, in order, then the rest; results of no call are dropped. */
function paired(content: Block[], open: readonly OpenCall[]): Block[] {
  const clean = sayable('user', content);
  if (isPaired(clean, open)) return clean;
  const results = clean.filter(isResult);
  const taken = open.map((entry) => {
    const index = results.findIndex((block) => block.tool_use_id === entry.was);
    const result = index === -1 ? undefined : results.splice(index, 1)[0];
    return result ? { ...result, tool_use_id: entry.call.id } : missing(entry);
  });
  return [...taken, ...clean.filter((block) => !isResult(block))];
}

function isPaired(content: readonly Block[], open: readonly OpenCall[]): boolean {
  const matches = (block: Block, index: number) => {
    const id = open[index]?.call.id;
    return isResult(block) ? block.tool_use_id === id : id === undefined;
  };
  return content.length >= open.length && content.every(matches);
}

/** Without empty text, and without what the role cannot say. */
function sayable(role: Message['role'], content: Block[]): Block[] {
  const isSayable = (block: Block) => {
    if (block.type === 'text') return block.text !== '';
    if (block.type === 'tool_result') return role === 'user';
    return role === 'assistant' || (block.type !== 'tool_use' && block.type !== 'thinking');
  };
  return content.every(isSayable) ? content : content.filter(isSayable);
}

/** The calls of a message, under ids that no call before has. */
function openCalls(content: readonly Block[], ids: CallIds): OpenCall[] {
  const open: OpenCall[] = [];
  for (const block of content) {
    if (block.type !== 'tool_use') continue;
    const id = unusedId(block.id, ids);
    open.push({ call: id === block.id ? block : { ...block, id }, was: block.id });
  }
  return open;
}

/** Ids of calls in use, and the number that the next clash of each gets. */
export type CallIds = Map<string, number>;

/** The id itself if it is new, else with a number: the same for the same context, so that the prefix stays byte-stable. */
export function unusedId(id: string, ids: CallIds): string {
  let unused = id;
  for (let n = ids.get(id) ?? 1; ids.has(unused); n++) {
    unused = `${id}_${n + 1}`;
    ids.set(id, n + 1);
  }
  ids.set(unused, 1);
  return unused;
}

function renamed(content: Block[], open: readonly OpenCall[]): Block[] {
  if (open.every(({ call, was }) => call.id === was)) return content;
  let n = 0;
  return content.map((block) => (block.type === 'tool_use' ? open[n++]!.call : block));
}
