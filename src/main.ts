// `npm start` ends here: the server with the built-in tools. What stops the start is told in one line, not in a stack.
import { setFlagsFromString } from 'node:v8';
import { serve } from './serve.ts';
import { systemClock } from './system-clock.ts';
import { builtInTools } from './tools/index.ts';

// V8 lets the heap of a busy server grow to several times what is in use; half as much again is enough, at no cost that
// can be measured. (The young generation is bounded on the command line: package.json, Dockerfile.)
setFlagsFromString('--heap-growing-percent=50');

try {
  await serve({ argv: process.argv.slice(2), tools: builtInTools(systemClock) });
} catch (error) {
  process.stderr.write(
    `lanekeeper did not start: ${error instanceof Error ? error.message : String(error)}\n`,
  );
  process.exit(1);
}
