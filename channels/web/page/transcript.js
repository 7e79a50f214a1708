// @ts-check
// The transcript: history, run events and the messages typed here go in; the list of items on the screen comes out. No DOM.
//
// An item's `rev` rises with each change, so that the view redraws only what changed. `settled` is what a run has taken or
// the history holds, in order; `waiting` are this page's own messages that no run has taken yet, and always come last.
import { entriesToItems, filesOf, partsOf } from './history.js';

/** @typedef {import('../../../src/domain/events.ts').RunEvent} RunEvent */
/** @typedef {import('../../../src/domain/messages.ts').HistoryEntry} HistoryEntry */
/** @typedef {import('../../../src/domain/messages.ts').Message} Message */
/** @typedef {import('./history.js').UserItem} UserItem */
/** @typedef {import('./history.js').AssistantItem} AssistantItem */
/** @typedef {import('./history.js').ToolPart} ToolPart */
/** @typedef {{ kind: 'notice', key: string, rev: number, text: string }} NoticeItem */
/** @typedef {UserItem | AssistantItem | NoticeItem} Item */
/** @typedef {{ messages: HistoryEntry[], cursor?: string, run?: string, pending: number }} LoadedPage */

/** @param {{ now?: () => number }} [options] */
export function createTranscript({ now = Date.now } = {}) {
  /** @type {HistoryEntry[]} */
  let entries = [];
  /** @type {string | undefined} */
  let cursor;
  /** @type {Item[]} */
  let settled = [];
  /** @type {UserItem[]} */
  let waiting = [];
  /** Runs that are over for us: merged into the loaded history, or ended before our eyes. Their events are old news. */
  const finished = new Set();
  /** @type {string | undefined} */
  let active;
  /** The assistant item being written, and how many of its parts belong to finished messages. */
  /** @type {AssistantItem | undefined} */
  let current;
  let mark = 0;
  let messageOpen = false;
  /** The active run was not seen from its start to its end: its history is to be read when it ends. */
  let incomplete = false;
  let notices = 0;

  /** @param {Item} item */
  const touch = (item) => (item.rev += 1);

  /** @param {string} run */
  function writing(run) {
    if (current?.run === run) return current;
    finishItem();
    const nth = settled.filter((item) => item.kind === 'assistant' && item.run === run).length;
    current = { kind: 'assistant', key: `a:${run}:${nth}`, rev: 0, run, at: now(), live: true, parts: [] };
    mark = 0;
    settled.push(current);
    return current;
  }

  /** Closes the item that is being written: nothing in it runs any longer. */
  function finishItem() {
    if (!current) return;
    messageOpen = false;
    current.live = false;
    for (const part of current.parts) {
      if (part.type === 'tool' && (part.state === 'running' || part.state === 'waiting'))
        part.state = 'unknown';
      if (part.type === 'thinking') closeThinking(part);
    }
    touch(current);
    current = undefined;
  }

  /** @param {import('./history.js').ThinkingPart} part */
  function closeThinking(part) {
    if (part.startedAt !== undefined && part.durationMs === undefined)
      part.durationMs = now() - part.startedAt;
  }

  /** A run took these messages: they leave the waiting ones. @param {string[]} ids @param {string} run */
  function take(ids, run) {
    for (const id of ids) {
      const index = waiting.findIndex((item) => item.id === id);
      const [item] = index === -1 ? [] : waiting.splice(index, 1);
      if (item) {
        item.state = 'taken';
        item.run = run;
        touch(item);
        settled.push(item);
      } else if (!findUser(id)) {
        incomplete = true; // typed elsewhere: its text comes with the history
      }
    }
  }

  /** @param {string} id */
  const findUser = (id) => settled.filter((item) => item.kind === 'user').find((item) => item.id === id);

  /** Forgets what was streamed of a message that was not finished. @param {AssistantItem} item */
  function dropOpenMessage(item) {
    if (item.parts.length > mark) item.parts.length = mark;
    touch(item);
  }

  /** @param {string} run @param {'text' | 'thinking'} type @param {string} delta */
  function stream(run, type, delta) {
    const item = writing(run);
    const last = item.parts.at(-1);
    if (item.parts.length > mark && last?.type === type) {
      last.text += delta;
    } else {
      if (last?.type === 'thinking') closeThinking(last);
      item.parts.push(type === 'text' ? { type, text: delta } : { type, text: delta, startedAt: now() });
    }
    touch(item);
  }

  /** The finished message replaces what was streamed of it. @param {string} run @param {Message} message */
  function endMessage(run, message) {
    const item = writing(run);
    const streamed = item.parts.slice(mark);
    const parts = partsOf(message.content);
    for (const [index, part] of parts.entries()) {
      const before = streamed[index];
      if (part.type !== 'thinking' || before?.type !== 'thinking') continue;
      closeThinking(before);
      part.durationMs = before.durationMs;
    }
    item.parts.splice(mark, item.parts.length - mark, ...parts);
    mark = item.parts.length;
    messageOpen = false;
    touch(item);
  }

  /** @param {string} run @param {string} callId @param {(part: ToolPart) => void} change */
  function changeTool(run, callId, change) {
    for (const item of settled) {
      if (item.kind !== 'assistant' || item.run !== run) continue;
      const part = item.parts.find((candidate) => candidate.type === 'tool' && candidate.id === callId);
      if (part?.type !== 'tool') continue;
      change(part);
      touch(item);
      return true;
    }
    return false;
  }

  /** @param {string} run */
  function startRun(run, /** @type {string[]} */ messages, /** @type {boolean} */ resumed) {
    active = run;
    incomplete = resumed;
    if (resumed) {
      // The worker that wrote this died: what it had not finished is written anew by another one.
      if (current?.run === run) dropOpenMessage(current);
    } else {
      // Or it died before it had kept anything: the run starts from nothing.
      if (current?.run === run) current = undefined;
      settled = settled.filter((item) => item.kind !== 'assistant' || item.run !== run);
    }
    messageOpen = false;
    take(messages, run);
  }

  /** @param {Extract<RunEvent, { type: 'agent_end' }>} event */
  function endRun({ run, status, reply, stop }) {
    const items = settled.filter((item) => item.kind === 'assistant').filter((item) => item.run === run);
    const shown = items
      .flatMap((item) => item.parts)
      .some((part) => 'text' in part && part.text.includes(reply.trim()));
    const cancelled = stop === 'aborted';
    if (reply.trim() !== '' && !shown && !(cancelled && items.some((item) => item.parts.length > 0))) {
      const item = writing(run);
      item.parts.push({ type: status === 'failed' && !cancelled ? 'error' : 'text', text: reply });
    }
    if (cancelled) {
      const item = current?.run === run ? current : items.at(-1);
      if (item) item.stopped = true;
    }
    finishItem();
    finished.add(run);
    if (active === run) active = undefined;
  }

  /** @param {RunEvent} event @returns {boolean} whether the history is to be read: a run has ended that was not seen in full */
  function apply(event) {
    const { run } = event;
    if (finished.has(run)) {
      if (active === run) active = undefined;
      return false;
    }
    if (active !== run) {
      active = run;
      incomplete = event.type !== 'agent_start'; // joined in the middle
    }
    follow(event);
    return event.type === 'agent_end' && incomplete;
  }

  /** @param {RunEvent} event */
  function follow(event) {
    const { run } = event;
    switch (event.type) {
      case 'agent_start':
        return startRun(run, event.messages, event.resumed === true);
      case 'steered':
        take(event.messages, run);
        return finishItem();
      case 'message_start':
        if (event.role === 'user') return;
        if (current && current.run !== run) finishItem();
        if (current && messageOpen) dropOpenMessage(current);
        messageOpen = true;
        mark = current?.run === run ? current.parts.length : 0;
        return;
      case 'message_update':
        return stream(run, 'text', event.delta);
      case 'reasoning_update':
        return stream(run, 'thinking', event.delta);
      case 'message_reset':
        if (current?.run === run) dropOpenMessage(current);
        return;
      case 'message_end':
        // A user message's text here is what the model gets, stamped with the time: not for the screen.
        if (event.message.role === 'assistant') endMessage(run, event.message);
        return;
      case 'tool_execution_start':
        return startTool(run, event.call);
      case 'tool_execution_progress':
        changeTool(run, event.call_id, (part) => (part.progress = event.text));
        return;
      case 'tool_execution_end':
        changeTool(run, event.call_id, (part) => {
          part.state = event.result.is_error === true ? 'failed' : 'done';
          part.durationMs = event.duration_ms;
          part.output = event.result.content;
          part.display = event.display;
          part.files = filesOf(event.result);
        });
        return;
      case 'error': {
        const item = writing(run);
        item.parts.push({ type: 'error', text: event.message });
        mark = item.parts.length;
        touch(item);
        return;
      }
      case 'agent_cancelled':
        writing(run).stopped = true;
        return;
      case 'agent_end':
        return endRun(event);
      default:
        return;
    }
  }

  /** @param {string} run @param {import('../../../src/domain/messages.ts').ToolUseBlock} call */
  function startTool(run, call) {
    /** @param {ToolPart} part */
    const start = (part) => {
      part.state = 'running';
      part.startedAt = now();
    };
    if (changeTool(run, call.id, start)) return;
    const [part] = partsOf([call]);
    if (part?.type !== 'tool') return;
    start(part);
    const item = writing(run);
    item.parts.push(part);
    mark = item.parts.length;
    touch(item);
  }

  /** @param {LoadedPage} page */
  function load(page) {
    entries = page.messages;
    cursor = page.cursor;
    for (const entry of entries) finished.add(entry.run);
    // What was seen of a run that is not merged yet stays; the rest is replaced by the history.
    const unmerged =
      page.run !== undefined || page.pending > 0
        ? settled.filter(
            (item) => item.kind !== 'notice' && item.run !== undefined && !finished.has(item.run),
          )
        : [];
    if (unmerged.length === 0 || (page.run !== undefined && page.run !== active)) current = undefined;
    active = page.run !== undefined && !finished.has(page.run) ? page.run : undefined;
    const known = entriesToItems(entries);
    const ids = new Set(known.map((item) => item.key));
    settled = keepLocal(settled, [...known, ...unmerged.filter((item) => !ids.has(item.key))]);
    if (current && !settled.includes(current)) current = undefined;
    waiting = waiting.filter((item) => !ids.has(item.key));
    incomplete = active !== undefined;
  }

  /** @param {{ messages: HistoryEntry[], cursor?: string }} page older than everything loaded */
  function prepend(page) {
    const before = entriesToItems(entries).length;
    entries = [...page.messages, ...entries];
    cursor = page.cursor;
    for (const entry of page.messages) finished.add(entry.run);
    settled = [...entriesToItems(entries), ...settled.slice(before)];
  }

  /**
   * What only this page knows stays where it was: behind what it came after, or first if that is gone.
   * @param {readonly Item[]} before @param {Item[]} items
   */
  function keepLocal(before, items) {
    for (const [index, item] of before.entries()) {
      const local = item.kind === 'notice' || (item.kind === 'user' && item.state === 'failed');
      if (!local || items.some((other) => other.key === item.key)) continue;
      const previous = before[index - 1]?.key;
      items.splice(items.findIndex((other) => other.key === previous) + 1, 0, item);
    }
    return items;
  }

  return {
    apply,
    load,
    prepend,
    /** A message typed here. @param {{ id: string, text: string, at: number, state: UserItem['state'], files?: import('./attach.js').KeptFile[] }} message */
    add({ id, text, at, state, files = [] }) {
      if (findUser(id) || waiting.some((item) => item.id === id)) return;
      const shown = files.map((file) => ({ ...file, name: file.name ?? file.media_type }));
      waiting.push({ kind: 'user', key: `u:${id}`, rev: 0, id, text, at, state, files: shown });
    },
    /** The server has it. @param {string} id */
    sent(id) {
      const item = waiting.find((candidate) => candidate.id === id);
      if (!item) return; // a run was quicker
      item.state = 'waiting';
      touch(item);
    },
    /** The server refused it: it stays where it is, and what comes after it follows. @param {string} id @param {import('./api.js').Problem} problem */
    refused(id, problem) {
      const item = waiting.find((candidate) => candidate.id === id);
      if (!item) return;
      waiting = waiting.filter((other) => other !== item);
      settled.push(item);
      touch(Object.assign(item, { state: 'failed', problem }));
    },
    /** It never reaches a run. @param {string} id */
    remove(id) {
      waiting = waiting.filter((item) => item.id !== id);
      settled = settled.filter((item) => item.kind !== 'user' || item.id !== id || item.state !== 'failed');
    },
    /** @param {string} text */
    notice(text) {
      notices += 1;
      settled.push({ kind: 'notice', key: `n:${notices}`, rev: 0, text });
    },
    /** @param {string} id whether the history or a run has it */
    has: (id) => findUser(id)?.state === 'taken',
    /** @param {string} id whether the loaded history has it */
    isMerged: (id) => entries.some((entry) => entry.id === id),
    /** @returns {Item[]} */
    get items() {
      return [...settled, ...waiting];
    },
    get active() {
      return active;
    },
    /** A run is on, or a message that the server has waits for one. */
    get busy() {
      return active !== undefined || waiting.some((item) => item.state === 'waiting');
    },
    /** Something on the screen is seen to be going on: text that grows, a tool that runs. */
    get moving() {
      const last = current?.parts.at(-1);
      if (last === undefined) return false;
      return last.type === 'tool' ? last.state === 'running' : messageOpen;
    },
    get cursor() {
      return cursor;
    },
  };
}
