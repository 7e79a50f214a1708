// `npm run doctor`: would the server start, and would it work? One finding a part, each with what to do. Starts nothing and
// sends no message; a model is only called when asked for.
import { existsSync } from 'node:fs';
import { loadConfig, searchPath, type LoadOptions } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { checkArguments } from '../agent/validate.ts';
import type { Tool } from '../ports/tool.ts';
import { systemClock } from '../system-clock.ts';
import { checkTools } from '../tools/check.ts';
import { builtInTools } from '../tools/index.ts';
import { checkChannels } from './channels.ts';
import { reasonOf, type Finding } from './finding.ts';
import { checkModels } from './models.ts';
import { checkMedia, checkPort, checkPrompt, checkStorage, runningServer } from './place.ts';

export type { Finding } from './finding.ts';

export interface DoctorOptions extends LoadOptions {
  /** Makes one tiny call to the default model. */
  live?: boolean;
}

/** Findings as they are made. Later parts need the configuration, so a wrong one is the only finding. */
export async function* diagnose(options: DoctorOptions = {}): AsyncGenerator<Finding> {
  let config: Config;
  try {
    const loaded = loadConfig(options);
    config = loaded.config;
    yield {
      state: 'ok',
      part: 'configuration',
      text: loaded.files.filter((file) => existsSync(file)).join(', then '),
    };
  } catch (error) {
    yield { state: 'wrong', part: 'configuration', text: reasonOf(error) };
    return;
  }
  const running = await runningServer(config);
  yield await checkPort(config, running);
  yield* checkStorage(config, running);
  yield await checkMedia(config);
  yield await checkPrompt();
  const path = searchPath(options);
  const check = (tool: Tool, args: Record<string, unknown>) => checkArguments(tool, args, false);
  yield* checkTools({ settings: config.tools, builtIn: builtInTools(systemClock), check, path });
  yield* checkModels(config, options.live ?? false);
  yield* checkChannels(config, running);
}
