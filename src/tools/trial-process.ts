// A process of its own that imports tool files, one after the other, and says how each went. trial.ts starts and ends it.
import { lineToServer } from '../child/server.ts';
import type { TrialMessage } from './trial.ts';

const line = lineToServer(
  (urls) => void tryAll(urls as string[]).catch(() => process.exit(1)),
  () => process.exit(1),
);
line.send('ready' satisfies TrialMessage);

async function tryAll(urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const answer = await import(url).then(
      () => ({ url }),
      (error: unknown) => ({ url, error: error instanceof Error ? error.message : String(error) }),
    );
    await tell(answer);
  }
}

/** Resolves when it is on its way: the next file may end the process. */
const tell = (answer: TrialMessage): Promise<void> =>
  new Promise((resolve) => void line.send(answer, resolve));
