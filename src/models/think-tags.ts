// Model layer: reasoning that comes inside the text, between <think> and </think> (MiniMax, many proxies), is told
// apart by a state machine over the stream, because tags span chunks. Code is left alone: somebody may ask about tags.
//
// A closing tag without an opening one means that all text so far was reasoning (templates that open the tag in the
// prompt); the caller learns it by `void`, since it may have shown that text already.

export type ThinkPart = { type: 'text' | 'thinking'; text: string } | { type: 'void' };

const OPEN = /<(think|thinking|thought|reasoning|seed:think|mm:think)>|◁think▷/i;
/** What may be the beginning of a tag has to wait for the rest of it. */
const BEGINNING = /(?:<\/?[a-z:]{0,11}|◁\/?[a-z]{0,5})$/i;

export interface ThinkParser {
  push(text: string): ThinkPart[];
  /** What was held back. */
  end(): ThinkPart[];
}

export function createThinkParser(): ThinkParser {
  let pending = '';
  let thinking = false;
  let closing = '</think>';
  /** Something besides white space was given out as text. */
  let started = false;
  /** A pair was seen: a lone closing tag is then just text. */
  let paired = false;
  /** Last character of the text, to see a quoted tag; and whether a ``` fence is open. */
  let last = '';
  let fence = false;
  let ticks = 0;
  /** White space after a block belongs to nobody. */
  let trim = false;

  const emit = (parts: ThinkPart[], raw: string) => {
    let text = raw;
    if (trim) {
      text = text.trimStart();
      if (text) trim = false;
    }
    if (!text) return;
    if (!thinking) {
      if (ticks > 0 || text.includes('`'))
        for (const char of text) {
          ticks = char === '`' ? ticks + 1 : 0;
          if (ticks === 3) fence = !fence;
        }
      if (text.trim()) started = true;
      last = text.at(-1) ?? '';
    }
    parts.push({ type: thinking ? 'thinking' : 'text', text });
  };

  const step = (parts: ThinkPart[]): boolean => {
    if (thinking) {
      const at = pending.toLowerCase().indexOf(closing);
      if (at === -1) return false;
      emit(parts, pending.slice(0, at));
      pending = pending.slice(at + closing.length);
      thinking = false;
      trim = true;
      return true;
    }
    const open = OPEN.exec(pending);
    const lone = paired ? -1 : pending.toLowerCase().indexOf('</think>');
    if (lone !== -1 && (!open || lone < open.index)) {
      emit(parts, pending.slice(0, lone));
      pending = pending.slice(lone + '</think>'.length);
      if (fence || quoted(last)) emit(parts, '</think>');
      else {
        parts.push({ type: 'void' });
        started = false;
        trim = true;
      }
      paired = true;
      return true;
    }
    if (!open) return false;
    emit(parts, pending.slice(0, open.index));
    pending = pending.slice(open.index + open[0].length);
    const name = (open[1] ?? 'think').toLowerCase();
    // Only <think> is rare enough in prose to be believed in the middle of an answer.
    if (fence || quoted(last) || (started && name !== 'think')) {
      emit(parts, open[0]);
    } else {
      thinking = true;
      paired = true;
      trim = true;
      closing = open[0] === '◁think▷' ? '◁/think▷' : `</${name}>`;
    }
    return true;
  };

  return {
    push(text) {
      const parts: ThinkPart[] = [];
      pending += text;
      while (step(parts));
      const keep = BEGINNING.exec(pending)?.index ?? pending.length;
      emit(parts, pending.slice(0, keep));
      pending = pending.slice(keep);
      return parts;
    },
    end() {
      const parts: ThinkPart[] = [];
      emit(parts, pending);
      pending = '';
      return parts;
    },
  };
}

const quoted = (char: string): boolean => char !== '' && '`"\'“‘「'.includes(char);
