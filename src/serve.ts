// Runs a server as a process: configuration → storage → server → signals. main.ts calls it with the built-in tools; a
// composition root of one's own may bring others.
import { parseArgs } from 'node:util';
import { ensureAdminToken } from '../config/admin-token.ts';
import { createConfigHolder, watchConfig } from '../config/holder.ts';
import { PROMPT_FOLDER } from '../config/load.ts';
import { createPromptSource } from '../config/prompt.ts';
import { openStorage } from './backend.ts';
import { composeServer, type Role } from './compose.ts';
import type { Storage } from './ports/storage.ts';
import type { Tool } from './ports/tool.ts';
import { createLog } from './telemetry/log.ts';

const ROLES: readonly string[] = ['all', 'gateway', 'worker'] satisfies Role[];

export interface ServeOptions {
  /** Command-line arguments, without node and script. */
  argv: string[];
  tools: readonly Tool[];
  /** Lets a test watch what goes through the ports. */
  wrapStorage?: (storage: Storage) => Storage;
}

/** Resolves when the server is ready; SIGTERM and SIGINT then drain it and end the process. */
export async function serve({
  argv,
  tools,
  wrapStorage = (storage) => storage,
}: ServeOptions): Promise<void> {
  const role = parseRole(argv);
  const holder = createConfigHolder();
  const config = holder.current;
  const log = createLog({ level: config.server.log_level });
  if (role !== 'all' && config.storage.url === '') {
    throw new Error(`--role ${role} needs Redis: set REDIS_URL (embedded storage belongs to one process).`);
  }
  const storage = wrapStorage(await openStorage(config, log));
  const server = await composeServer({
    config: () => holder.current,
    storage,
    tools,
    prompt: createPromptSource(PROMPT_FOLDER).read,
    adminToken: await ensureAdminToken(config),
    role,
    log,
  });
  const stopWatching = watchConfig(holder, log);
  const reload = () => {
    server.reload().catch((error: unknown) => {
      log.error({ error }, 'the tools could not be read again; the old ones stay');
    });
  };
  process.on('SIGHUP', reload);

  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    log.info({ signal }, 'draining');
    stopWatching();
    server.stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ error }, 'did not shut down cleanly');
        process.exit(1);
      },
    );
  };
  // Kept on: npm passes a terminal's Ctrl-C on a second time, and without a listener that would end the process at once.
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);

  const { url, reasons } = await server.start();
  const fields = { url, role, storage: storage.kind };
  if (reasons.length === 0) log.info(fields, 'ready');
  else log.warn({ ...fields, reasons }, 'listening, not ready yet');
}

function parseRole(argv: string[]): Role {
  const { values } = parseArgs({ args: argv, options: { role: { type: 'string', default: 'all' } } });
  if (!ROLES.includes(values.role)) {
    throw new Error(`--role ${values.role} is not known; allowed: ${ROLES.join(', ')}.`);
  }
  return values.role as Role;
}
