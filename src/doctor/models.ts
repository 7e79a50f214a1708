// The doctor on models: is there a key, does the endpoint answer; a call is made only when asked for.
import type { Config } from '../../config/schema.ts';
import { createModels, type Models } from '../models/index.ts';
import { resolveEntry } from '../models/settings.ts';
import { systemClock } from '../system-clock.ts';
import { notingLog, PATIENCE_MS, reasonOf, type Finding } from './finding.ts';

export async function* checkModels(config: Config, live: boolean): AsyncGenerator<Finding> {
  let models: Models;
  try {
    models = createModels(config, { clock: systemClock, log: notingLog([]) });
  } catch (error) {
    yield { state: 'wrong', part: 'models', text: reasonOf(error) };
    return;
  }
  const used = new Set([models.defaultName, ...(config.models[models.defaultName]?.fallbacks ?? [])]);
  for (const info of models.list().filter(({ id }) => used.has(id))) {
    const part = `model ${info.id}`;
    if (info.provider === 'demo') {
      const text =
        'the demo model answers; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add an entry to models';
      yield { state: 'note', part, text };
    } else if (info.ready) yield await checkEndpoint(config, info.id, part);
    else yield { state: 'wrong', part, text: `no key is set: set models.${info.id}.api_key` };
  }
  if (live) yield await callModel(models);
}

const HOME = { openai: 'https://api.openai.com/v1', anthropic: 'https://api.anthropic.com' };

/** Any answer will do: without a call nobody tells whether the key is good. */
async function checkEndpoint(config: Config, name: string, part: string): Promise<Finding> {
  const entry = resolveEntry(name, config.models[name] ?? {});
  const url = entry.baseUrl || (entry.provider === 'anthropic' ? HOME.anthropic : HOME.openai);
  const host = URL.parse(url)?.host ?? 'its base_url';
  try {
    const answer = await fetch(url, {
      method: 'HEAD',
      signal: AbortSignal.timeout(PATIENCE_MS),
      redirect: 'manual',
    });
    await answer.body?.cancel();
    return {
      state: 'ok',
      part,
      text: `${entry.model}: a key is set and ${host} answers (--live makes a call)`,
    };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const text = `${host} does not answer (${reasonOf(cause)}): check models.${name}.base_url and the network`;
    return { state: 'wrong', part, text };
  }
}

async function callModel(models: Models): Promise<Finding> {
  const part = `model ${models.defaultName}`;
  const started = Date.now();
  const stream = models.main().stream(
    {
      system: 'Answer with one word.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Say OK.' }] }],
      tools: [],
      allowTools: false,
      cacheKey: 'doctor',
    },
    AbortSignal.timeout(60_000),
  );
  for await (const event of stream) {
    if (event.type === 'done') return { state: 'ok', part, text: `answered in ${Date.now() - started} ms` };
    if (event.type === 'failed') {
      return { state: 'wrong', part, text: event.error?.message ?? 'did not answer within a minute' };
    }
  }
  return { state: 'wrong', part, text: 'ended without an answer' };
}
