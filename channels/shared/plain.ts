// Markdown → the words a person sees where nothing is formatted: marks are taken off, links keep their address, code stays.
import { marked, type Token, type Tokens } from 'marked';

const RULE = '———';

/** Never throws: what can't be read as Markdown stays as it is. */
export function plainText(markdown: string): string {
  try {
    return blocksOf(marked.lexer(markdown)).trim();
  } catch {
    // Nested deeper than the parser goes.
    return markdown.trim();
  }
}

function blocksOf(tokens: readonly Token[]): string {
  const blocks = tokens.map((token) => blockOf(token)).filter((text) => text !== '');
  return blocks.join('\n\n');
}

function blockOf(token: Token): string {
  switch (token.type) {
    case 'space':
    case 'def':
      return '';
    case 'hr':
      return RULE;
    case 'code':
      return (token as Tokens.Code).text;
    case 'blockquote': {
      const inner = blocksOf((token as Tokens.Blockquote).tokens);
      return inner
        .split('\n')
        .map((line) => `> ${line}`.trimEnd())
        .join('\n');
    }
    case 'list':
      return listOf(token as Tokens.List);
    case 'table':
      return tableOf(token as Tokens.Table);
    default:
      return inlineOf([token]);
  }
}

function listOf({ items, ordered, start, loose }: Tokens.List): string {
  const first = typeof start === 'number' ? start : 1;
  const lines = items.map((item, at) => {
    const mark = ordered ? `${first + at}.` : '•';
    const box = item.task ? (item.checked ? '☑ ' : '☐ ') : '';
    const parts = item.tokens.map((token) => blockOf(token)).filter((text) => text !== '');
    const indented = parts.join(loose ? '\n\n' : '\n').replaceAll('\n', `\n${' '.repeat(mark.length + 1)}`);
    return `${mark} ${box}${indented}`;
  });
  return lines.join(loose ? '\n\n' : '\n').replaceAll(/[ \t]+$/gm, '');
}

function tableOf({ header, rows }: Tokens.Table): string {
  const line = (cells: Tokens.TableCell[]) => cells.map(({ tokens }) => inlineOf(tokens)).join(' | ');
  return [header, ...rows].map((cells) => line(cells)).join('\n');
}

function inlineOf(tokens: readonly Token[]): string {
  return tokens.map((token) => wordsOf(token)).join('');
}

function wordsOf(token: Token): string {
  switch (token.type) {
    case 'br':
      return '\n';
    case 'checkbox':
      return '';
    case 'link': {
      const { href, tokens } = token as Tokens.Link;
      const text = inlineOf(tokens);
      return text === href || `mailto:${text}` === href ? text : `${text} (${href})`;
    }
    case 'image': {
      const { href, text } = token as Tokens.Image;
      return text === '' ? href : `${text} (${href})`;
    }
    case 'codespan':
    case 'escape':
    case 'html':
      return (token as Tokens.Text).text;
    default: {
      const { tokens, text, raw } = token as Tokens.Text;
      return tokens ? inlineOf(tokens) : (text ?? raw);
    }
  }
}
