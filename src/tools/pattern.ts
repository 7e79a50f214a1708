// Patterns of names in settings: `*` stands for any text, everything else for itself.

export type Matcher = (text: string) => boolean;

export function matcher(patterns: readonly string[]): Matcher {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')));
  const open = patterns
    .filter((pattern) => pattern.includes('*'))
    .map((pattern) => new RegExp(`^${pattern.split('*').map(literal).join('.*')}$`, 'su'));
  return (text) => exact.has(text) || open.some((expression) => expression.test(text));
}

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/gu, String.raw`\$&`);
