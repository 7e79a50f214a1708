// `npm start`: installs what is missing, then runs the server. Any Node from 20 on.
import { runProgram } from './lib/run.mjs';

await runProgram('src/main.ts', process.argv.slice(2));
