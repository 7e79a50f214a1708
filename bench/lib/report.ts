// What every benchmark ends with: a table for people, a JSON file for programs.
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, cpus, platform, release } from 'node:os';
import { join } from 'node:path';

export interface Table {
  /** The first column's title is the first item. */
  columns: string[];
  rows: string[][];
}

export interface Report {
  name: string;
  title: string;
  table: Table;
  /** What a reader must know to read the table: one sentence each. */
  notes: string[];
  /** The figures themselves, for the JSON file. */
  data: unknown;
}

const line = (cells: string[]): string => `| ${cells.join(' | ')} |`;

export function markdown(table: Table): string {
  const rule = table.columns.map((_, i) => (i === 0 ? '---' : '---:'));
  return [line(table.columns), line(rule), ...table.rows.map(line)].join('\n');
}

/** The same table with columns aligned, for a terminal. */
function aligned(table: Table): string {
  const all = [table.columns, ...table.rows];
  const widths = table.columns.map((_, i) => Math.max(...all.map((row) => (row[i] ?? '').length)));
  const pad = (cell: string, i: number): string =>
    i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0);
  const spaced = (row: string[]): string => row.map(pad).join('  ');
  const rule = widths.map((width) => '─'.repeat(width)).join('  ');
  return [spaced(table.columns), rule, ...table.rows.map(spaced)].join('\n');
}

function machine(): { node: string; cpu: string; cores: number; os: string } {
  const all = cpus();
  return {
    node: process.version,
    cpu: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    os: `${platform()} ${release()} ${arch()}`,
  };
}

/** Prints the report and writes bench/results/<name>.json. */
export async function publish(report: Report): Promise<void> {
  const notes = report.notes.map((note) => `  ${note}`).join('\n');
  process.stdout.write(
    `\n${report.title}\n\n${aligned(report.table)}\n${notes === '' ? '' : `\n${notes}\n`}`,
  );
  const dir = join(import.meta.dirname, '..', 'results');
  await mkdir(dir, { recursive: true });
  const file = { at: new Date().toISOString(), machine: machine(), ...report };
  await writeFile(join(dir, `${report.name}.json`), `${JSON.stringify(file, null, 2)}\n`);
}
