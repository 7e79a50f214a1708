// The `calculate` tool: arithmetic that models get wrong. Harmless, so it is on by default.
import { fail, success, type Tool } from '../ports/tool.ts';
import { evaluate, FUNCTIONS } from './expression.ts';

export function createCalculateTool(): Tool {
  return {
    name: 'calculate',
    description: `Evaluates an expression exactly as written: + - * / % (remainder) ^ parentheses, pi, e, ${FUNCTIONS.join(', ')} (angles in radians).`,
    parameters: {
      type: 'object',
      properties: { expression: { type: 'string', description: 'For example (1499 * 0.85 + 30) / 12' } },
      required: ['expression'],
      additionalProperties: false,
    },
    execution: 'parallel',
    idempotent: true,
    timeoutMs: 1_000,
    execute: (args) => {
      const expression = String(args['expression']);
      try {
        const text = evaluate(expression);
        return Promise.resolve(success(text, { display: `${expression} = ${text}` }));
      } catch (error) {
        return Promise.resolve(fail(error instanceof Error ? error.message : String(error)));
      }
    },
  };
}
