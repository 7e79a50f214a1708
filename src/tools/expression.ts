// Arithmetic expressions → their value, for the tool `calculate`. A parser of its own: the libraries for it either bring a
// programming language along or reach into JavaScript's objects; this one knows numbers, and the names below.

const CONSTANTS = new Map([
  ['pi', Math.PI],
  ['e', Math.E],
]);

type NumberFunction = (...values: number[]) => number;

const CALLS = new Map<string, NumberFunction>([
  ['abs', Math.abs],
  ['acos', Math.acos],
  ['asin', Math.asin],
  ['atan', Math.atan],
  ['ceil', Math.ceil],
  ['cos', Math.cos],
  ['exp', Math.exp],
  ['floor', Math.floor],
  ['ln', Math.log],
  ['log10', Math.log10],
  ['log2', Math.log2],
  ['max', Math.max],
  ['min', Math.min],
  ['round', (value = Number.NaN, digits = 0) => Math.round(value * 10 ** digits) / 10 ** digits],
  ['sin', Math.sin],
  ['sqrt', Math.sqrt],
  ['tan', Math.tan],
]);

export const FUNCTIONS: readonly string[] = [...CALLS.keys()];

const MAX_CHARS = 1_000;
const MAX_DEPTH = 100;
/** Digits of a number that are sure to be kept. */
const EXACT_DIGITS = 15;
const TOKEN =
  /\s*(?:(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)|([a-z][a-z0-9]*)|(\*\*|[-+*/%^(),]))/iuy;

interface Token {
  kind: 'number' | 'name' | 'sign' | 'end';
  text: string;
  at: number;
}

/** The value in decimal notation; "about …" where digits are missing. Throws an Error that says, for the model, what can't be read. */
export function evaluate(expression: string): string {
  if (expression.length > MAX_CHARS) throw new Error(`The expression is over ${MAX_CHARS} characters long.`);
  const value = parse(tokensOf(expression));
  if (Number.isNaN(value)) throw new Error('The expression has no real value.');
  if (!Number.isFinite(value)) throw new Error('The value is infinite: a division by zero, or too large.');
  if (Number.isSafeInteger(value)) return String(value);
  // The sixteenth digit is where 0.1 + 0.2 shows.
  const rounded = Number(value.toPrecision(EXACT_DIGITS));
  return Math.abs(value) > Number.MAX_SAFE_INTEGER ? `about ${rounded.toExponential()}` : String(rounded);
}

function tokensOf(expression: string): Token[] {
  const text = expression.replaceAll('×', '*').replaceAll('÷', '/').replaceAll('−', '-').trimEnd();
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  for (let at = 0; at < text.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) throw new Error(`"${text.slice(at, at + 20).trim()}" can't be read as arithmetic.`);
    const [, number, name, sign] = match;
    if (number !== undefined) tokens.push({ kind: 'number', text: number, at });
    else if (name !== undefined) tokens.push({ kind: 'name', text: name.toLowerCase(), at });
    else tokens.push({ kind: 'sign', text: sign === '**' ? '^' : (sign ?? ''), at });
  }
  tokens.push({ kind: 'end', text: 'the end', at: text.length });
  return tokens;
}

function numberOf(text: string): number {
  const digits = text.replace(/e.*/iu, '').replace('.', '').replace(/^0+/u, '');
  if (digits.length > EXACT_DIGITS) throw new Error(`${text} has more than ${EXACT_DIGITS} digits.`);
  return Number(text);
}

/** Of a rounded number the last digits, and so its remainder, are gone. */
function remainder(value: number, by: number): number {
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER)
    throw new Error('A number is too large for its remainder to be known.');
  return value % by;
}

/** Sums of products of powers; `^` binds tighter than a sign before it and groups to the right. */
function parse(tokens: readonly Token[]): number {
  let next = 0;
  let depth = 0;
  const peek = (): Token => tokens[next]!;
  const take = (sign: string): boolean => {
    const found = peek().kind === 'sign' && peek().text === sign;
    if (found) next++;
    return found;
  };
  const unexpected = (): never => {
    throw new Error(`Unexpected ${peek().text} at position ${peek().at + 1}.`);
  };
  const nested = <T>(read: () => T): T => {
    if (++depth > MAX_DEPTH) throw new Error('The expression is nested too deeply.');
    const value = read();
    depth--;
    return value;
  };

  function sum(): number {
    let value = product();
    for (;;) {
      if (take('+')) value += product();
      else if (take('-')) value -= product();
      else return value;
    }
  }
  function product(): number {
    let value = signed();
    for (;;) {
      if (take('*')) value *= signed();
      else if (take('/')) value /= signed();
      else if (take('%')) value = remainder(value, signed());
      else return value;
    }
  }
  function signed(): number {
    return nested(() => {
      if (take('-')) return -signed();
      return take('+') ? signed() : power();
    });
  }
  function power(): number {
    const base = atom();
    return take('^') ? base ** signed() : base;
  }
  function atom(): number {
    const { kind, text } = peek();
    if (kind === 'number') {
      next++;
      return numberOf(text);
    }
    if (kind === 'name') {
      next++;
      return named(text);
    }
    if (!take('(')) return unexpected();
    const value = sum();
    return take(')') ? value : unexpected();
  }
  function named(name: string): number {
    const constant = CONSTANTS.get(name);
    if (constant !== undefined) return constant;
    const call = CALLS.get(name);
    if (!call) throw new Error(`"${name}" is not known; there are pi, e, ${FUNCTIONS.join(', ')}.`);
    if (!take('(')) return unexpected();
    const values = [sum()];
    while (take(',')) values.push(sum());
    return take(')') ? call(...values) : unexpected();
  }

  const value = sum();
  return peek().kind === 'end' ? value : unexpected();
}
