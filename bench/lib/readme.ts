// Writes a benchmark's table between its markers in a page.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Replaces what stands between the markers `<!-- name:start -->` and `<!-- name:end -->` of a file of the project. */
export async function writeBlock(file: string, block: string, name = 'bench'): Promise<void> {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const path = join(import.meta.dirname, '..', '..', file);
  const text = await readFile(path, 'utf8');
  const from = text.indexOf(start);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error(`${file} has no ${start} … ${end}: nothing was written`);
  await writeFile(path, `${text.slice(0, from + start.length)}\n\n${block.trim()}\n\n${text.slice(to)}`);
}
