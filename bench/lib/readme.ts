// Writes the server's table between the bench markers of the READMEs.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const START = '<!-- bench:start -->';
const END = '<!-- bench:end -->';

/** Replaces what stands between the markers of a file in the project's root. */
export async function writeBlock(file: string, block: string): Promise<void> {
  const path = join(import.meta.dirname, '..', '..', file);
  const text = await readFile(path, 'utf8');
  const from = text.indexOf(START);
  const to = text.indexOf(END);
  if (from === -1 || to < from) throw new Error(`${file} has no ${START} … ${END}: nothing was written`);
  await writeFile(path, `${text.slice(0, from + START.length)}\n\n${block.trim()}\n\n${text.slice(to)}`);
}
