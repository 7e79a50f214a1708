// `npm start` ends here: the server with the built-in tools. What stops the start is told in one line, not in a stack.
import { serve } from './serve.ts';
import { systemClock } from './system-clock.ts';
import { builtInTools } from './tools/index.ts';

try {
  await serve({ argv: process.argv.slice(2), tools: builtInTools(systemClock) });
} catch (error) {
  process.stderr.write(
    `lanekeeper did not start: ${error instanceof Error ? error.message : String(error)}\n`,
  );
  process.exit(1);
}
