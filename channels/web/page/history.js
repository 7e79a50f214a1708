// @ts-check
// From content blocks and history entries to what the transcript shows. No DOM.

/** @typedef {import('../../../src/domain/messages.ts').Block} Block */
/** @typedef {import('../../../src/domain/messages.ts').HistoryEntry} HistoryEntry */
/** @typedef {import('../../../src/domain/messages.ts').ToolResultBlock} ToolResultBlock */
/** @typedef {{ type: 'text' | 'error', text: string }} TextPart */
/** @typedef {{ type: 'thinking', text: string, startedAt?: number, durationMs?: number }} ThinkingPart */
/** @typedef {import('./file-view.js').ShownFile} ShownFile */
/** @typedef {ShownFile & { type: 'file' }} FilePart */
/**
 * `unknown`: the run ended without a result of this call before our eyes.
 * @typedef {{
 *   type: 'tool', id: string, name: string, input: Record<string, unknown>,
 *   state: 'waiting' | 'running' | 'done' | 'failed' | 'unknown',
 *   progress?: string, output?: ToolResultBlock['content'], display?: string, startedAt?: number, durationMs?: number,
 *   files?: ShownFile[],
 * }} ToolPart
 */
/** @typedef {TextPart | ThinkingPart | ToolPart | FilePart} Part */
/**
 * `sending`: on its way to the server; `waiting`: the server has it; `taken`: a run has it; `failed`: refused.
 * @typedef {{
 *   kind: 'user', key: string, rev: number, id: string, text: string, at: number, files: ShownFile[],
 *   state: 'sending' | 'waiting' | 'taken' | 'failed', problem?: import('./api.js').Problem, run?: string,
 * }} UserItem
 */
/**
 * @typedef {{
 *   kind: 'assistant', key: string, rev: number, run: string, at: number, live: boolean, parts: Part[], stopped?: boolean,
 * }} AssistantItem
 */

/** @param {{ name?: string, media_type?: string, size?: number, ref?: string }} file @returns {ShownFile} */
const fileOf = ({ name, media_type, size, ref }) => ({
  name: name ?? media_type ?? '',
  media_type,
  size,
  ref,
});

/** Files that a tool made for people. @param {ToolResultBlock} result */
export const filesOf = ({ attachments }) => attachments?.map(fileOf);

/** @param {readonly Block[]} content @returns {Part[]} */
export function partsOf(content) {
  /** @type {Part[]} */
  const parts = [];
  for (const block of content) {
    if (block.type === 'text' && block.text.trim() !== '') parts.push({ type: 'text', text: block.text });
    if (block.type === 'thinking' && block.thinking.trim() !== '') {
      parts.push({ type: 'thinking', text: block.thinking });
    }
    if (block.type === 'tool_use') {
      parts.push({ type: 'tool', id: block.id, name: block.name, input: block.input, state: 'waiting' });
    }
    if (block.type === 'image' || block.type === 'file') parts.push({ type: 'file', ...fileOf(block) });
  }
  return parts;
}

/**
 * One item per user message and per answer: the assistant entries of a run form one answer, with the results of its tool
 * calls in place, unless a message that was taken in between parts them.
 * @param {readonly HistoryEntry[]} entries oldest first
 * @returns {(UserItem | AssistantItem)[]}
 */
export function entriesToItems(entries) {
  /** @type {(UserItem | AssistantItem)[]} */
  const items = [];
  /** @type {Map<string, ToolPart>} */
  const calls = new Map();
  /** @type {Map<string, number>} */
  const answers = new Map();

  /** @param {HistoryEntry} entry */
  function user(entry) {
    for (const block of entry.content) {
      if (block.type !== 'tool_result') continue;
      const call = calls.get(block.tool_use_id);
      if (!call) continue;
      call.state = block.is_error === true ? 'failed' : 'done';
      call.output = block.content;
      call.files = filesOf(block);
    }
    if (entry.id === undefined) return;
    const { id, at, run } = entry;
    const parts = partsOf(entry.content);
    const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const files = parts.filter((part) => part.type === 'file').map(fileOf);
    items.push({ kind: 'user', key: `u:${id}`, rev: 0, id, text, at, files, state: 'taken', run });
  }

  /** @param {HistoryEntry} entry */
  function assistant(entry) {
    let item = items.at(-1);
    if (item?.kind !== 'assistant' || item.run !== entry.run) {
      const nth = answers.get(entry.run) ?? 0;
      answers.set(entry.run, nth + 1);
      const key = `a:${entry.run}:${nth}`;
      item = { kind: 'assistant', key, rev: 0, run: entry.run, at: entry.at, live: false, parts: [] };
      items.push(item);
    }
    const parts = partsOf(entry.content);
    for (const part of parts) if (part.type === 'tool') calls.set(part.id, part);
    item.parts.push(...parts);
    item.at = entry.at;
    if (entry.stop === 'aborted') item.stopped = true;
  }

  for (const entry of entries) (entry.role === 'user' ? user : assistant)(entry);
  for (const call of calls.values()) if (call.state === 'waiting') call.state = 'unknown';
  return items;
}
