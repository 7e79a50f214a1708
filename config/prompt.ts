// The system prompt's sources: three Markdown files, read for each run, so that an edit applies to the next one.
import { statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Who the bot is, whom it serves, and what it must keep to: most general first, so that prompt caches hold longest. */
const FILES = ['AGENT.md', 'USER.md', 'RULE.md'] as const;

export interface PromptSource {
  /** The text for one run. A file that is missing or empty is left out; one that can't be read rejects. */
  read(): Promise<string>;
}

export function createPromptSource(folder: string): PromptSource {
  const cache = new Map<string, { version: string; text: string }>();

  async function readFresh(name: string): Promise<string> {
    const file = join(folder, name);
    try {
      // Looked at for every run: a trip through the thread pool would cost far more than the look.
      const { mtimeMs, size, ino } = statSync(file);
      const version = `${mtimeMs} ${size} ${ino}`;
      const cached = cache.get(name);
      if (cached?.version === version) return cached.text;
      const text = (await readFile(file, 'utf8')).trim();
      cache.set(name, { version, text });
      return text;
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
      throw error;
    }
  }

  return {
    async read() {
      const texts = await Promise.all(FILES.map(readFresh));
      return texts.filter((text) => text !== '').join('\n\n');
    },
  };
}
