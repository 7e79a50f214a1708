// `node scripts/run.mjs [--dev] <program> [arguments]`: one of our TypeScript programs on Node 24, with what it needs
// installed. `--dev`: it needs the development packages.
import { runProgram } from './lib/run.mjs';

const [first, ...rest] = process.argv.slice(2);
const dev = first === '--dev';
const [entry, ...args] = dev ? rest : [first, ...rest];
await runProgram(entry, args, { dev });
