// A composition root for fault tests: the real server with two counting tools, one idempotent and one not, and with
// named points at which the process kills itself with SIGKILL, once.
//
// FAULT_POINT: after_claim | after_tool | after_tool_journal | after_commit | before_settle | after_settle
// FAULT_ONCE: a file; the fault happens only while it does not exist (so a process that is started again lives).
// COUNTER: a file that the tools append one line to for each execution.
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { serve } from '../../src/serve.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { systemClock } from '../../src/system-clock.ts';
import { builtInTools } from '../../src/tools/index.ts';

const { FAULT_POINT = '', FAULT_ONCE = '', COUNTER = '' } = process.env;

function reach(point: string): void {
  if (point !== FAULT_POINT || existsSync(FAULT_ONCE)) return;
  writeFileSync(FAULT_ONCE, point);
  process.kill(process.pid, 'SIGKILL');
}

function countingTool(name: string, idempotent: boolean): Tool {
  return {
    name,
    description: 'Counts its executions outside of the server.',
    parameters: { type: 'object', properties: { tag: { type: 'string' } } },
    idempotent,
    execute(args, { callId }) {
      appendFileSync(COUNTER, `${JSON.stringify({ name, callId, tag: args['tag'] })}\n`);
      reach('after_tool');
      return Promise.resolve(success(`${name} counted`));
    },
  };
}

/** The same storage, with a look at what passes. */
function watched(storage: Storage): Storage {
  const { store, outbox } = storage;
  return {
    ...storage,
    store: {
      ...store,
      async claim(...args) {
        const result = await store.claim(...args);
        if (result.status === 'claimed') reach('after_claim');
        return result;
      },
      async journal(lease, entries) {
        const result = await store.journal(lease, entries);
        if (entries.some((entry) => entry.kind === 'tool_result')) reach('after_tool_journal');
        return result;
      },
      async commit(...args) {
        const result = await store.commit(...args);
        reach('after_commit');
        return result;
      },
    },
    outbox: {
      ...outbox,
      async settle(lease) {
        reach('before_settle');
        const result = await outbox.settle(lease);
        reach('after_settle');
        return result;
      },
    },
  };
}

await serve({
  argv: process.argv.slice(2),
  tools: [...builtInTools(systemClock), countingTool('count_once', false), countingTool('count_many', true)],
  wrapStorage: watched,
});
