import { defineConfig } from 'vitest/config';

// One project per kind of test, so that each runs alone: `npx vitest run --project unit`.
const project = (
  name: string,
  more: { fileParallelism?: boolean; testTimeout?: number; hookTimeout?: number } = {},
) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    environment: 'node' as const,
    testTimeout: 15_000,
    hookTimeout: 30_000,
    // Files that a worker runs one after the other share what they import: half of the time of the unit tests.
    isolate: false,
    // A second is short on a machine that does other things, too.
    expect: { poll: { timeout: 10_000 } },
    ...more,
  },
});

export default defineConfig({
  test: {
    projects: [
      project('unit'),
      project('contract', { testTimeout: 60_000 }),
      // Servers that a file's tests share are started in hooks.
      project('e2e', { testTimeout: 60_000, hookTimeout: 60_000 }),
      project('browser', { testTimeout: 60_000 }),
      project('faults', { fileParallelism: false, testTimeout: 120_000 }),
      project('bench', { fileParallelism: false, testTimeout: 120_000 }),
    ],
    // Servers and what they wait for: two files at once leave two cores idle for a part of the time.
    maxWorkers: 3,
  },
});
