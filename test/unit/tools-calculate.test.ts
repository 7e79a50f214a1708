// Arithmetic: what is right, what is refused, and that no text reaches JavaScript.
import { array, assert, constantFrom, integer, property, string, tuple } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { evaluate } from '../../src/tools/expression.ts';

describe('calculate', () => {
  it.each([
    ['1 + 2 * 3', '7'],
    ['(1 + 2) * 3', '9'],
    ['0.1 + 0.2', '0.3'],
    ['-2^2', '-4'],
    ['2^-1', '0.5'],
    ['2^3^2', '512'],
    ['2**10', '1024'],
    ['--3', '3'],
    ['7 % 4', '3'],
    ['10 / 4', '2.5'],
    ['3 × 4 ÷ 2 − 1', '5'],
    ['1.5e3 + .5', '1500.5'],
    ['sqrt(16) + abs(-2)', '6'],
    ['max(1, 7, 3) - min(4, 2)', '5'],
    ['round(2.345, 1)', '2.3'],
    ['ROUND(pi, 4)', '3.1416'],
    ['2^53 - 1', '9007199254740991'],
    ['2^64', 'about 1.84467440737096e+19'],
    ['-(10^20)', 'about -1e+20'],
    ['2^64 - 2^64', '0'],
    ['1e300 * 10', 'about 1e+301'],
    ['0.000001234', '0.000001234'],
    ['123456789012345', '123456789012345'],
    ['00012345678901234.5', '12345678901234.5'],
    ['(1499 * 0.85 + 30) / 12', '108.679166666667'],
  ])('%s = %s', (expression, value) => {
    expect(evaluate(expression)).toBe(value);
  });

  it.each([
    ['', /the end/],
    ['1 +', /the end/],
    ['(1', /the end/],
    ['1 2', /Unexpected 2/],
    ['1 / 0', /infinite/],
    ['sqrt(-1)', /no real value/],
    ['constructor', /not known/],
    ['__proto__', /can't be read/],
    ['process.exit(1)', /can't be read/],
    ['a = 1', /can't be read/],
    ['"x"', /can't be read/],
    ['sqrt 4', /Unexpected 4/],
    ['123456789012345678 + 1', /more than 15 digits/],
    ['0.1234567890123456', /more than 15 digits/],
    ['3^40 % 10', /too large for its remainder/],
    ['5 % 0', /no real value/],
    ['9^9^9^9', /infinite/],
    ['1e999', /infinite/],
    ['-(9^9^9)', /infinite/],
    ['exp(1e9)', /infinite/],
    ['round(1, 400)', /no real value/],
    ['2^'.repeat(400), /nested too deeply/],
    ['-'.repeat(500) + '1', /nested too deeply/],
    ['abs('.repeat(150) + '1' + ')'.repeat(150), /nested too deeply/],
    ['('.repeat(500), /nested too deeply/],
    ['1+'.repeat(600), /characters long/],
  ])('refuses %s', (expression, message) => {
    expect(() => evaluate(expression)).toThrow(message);
  });

  it('adds and subtracts from left to right', () => {
    const operator = constantFrom('+', '-');
    const number = integer({ min: 0, max: 999 });
    assert(
      property(number, array(tuple(operator, number), { maxLength: 4 }), (first, rest) => {
        const text = [String(first), ...rest.map(([sign, value]) => `${sign} ${value}`)].join(' ');
        const expected = rest.reduce(
          (sum, [sign, value]) => (sign === '+' ? sum + value : sum - value),
          first,
        );
        expect(evaluate(text)).toBe(String(expected));
      }),
    );
  });

  it('answers or refuses every text with an Error that has a message', () => {
    assert(
      property(string(), (text) => {
        try {
          expect(evaluate(text)).toMatch(/^(?:about )?-?\d/);
        } catch (error) {
          expect(error).toHaveProperty('message', expect.stringMatching(/./));
        }
      }),
    );
  });
});
