// ModelClient for OpenAI's chat completions and whatever speaks them. The only place that knows the openai package; it is
// loaded at the first call, so that a server which never calls it does not carry it. The SDK makes the request; the answer is
// read in sse.ts.
import type OpenAI from 'openai';
import type { ModelClient } from '../../ports/model.ts';
import type { Logger } from '../../ports/log.ts';
import { createAttempt, createClient, lazily } from '../client.ts';
import { learn } from './adapt.ts';
import { createRequestBuilder } from './request.ts';
import { createOpenAIStream } from './stream.ts';
import { createReply } from '../reply.ts';
import { authHeaders, type ModelEntry } from '../settings.ts';
import { createTransport } from '../transport.ts';

type Params = OpenAI.ChatCompletionCreateParamsStreaming;

export interface OpenAIClient extends ModelClient {
  /** Loads the SDK ahead of the first call. */
  warm(): Promise<void>;
}

export function createOpenAIClient(resolved: ModelEntry, { log }: { log: Logger }): OpenAIClient {
  // Its flags change when the endpoint teaches something.
  const entry = { ...resolved };
  const builder = createRequestBuilder(entry);
  const sdk = lazily(() => load(entry));
  const client = createClient({
    entry,
    async attempt(request, key, signal) {
      const openai = await sdk();
      const reply = createReply({
        model: entry.model,
        thinkTags: entry.flags.think_tags,
        ...(entry.flags.reasoning === 'tags' && { inlineField: 'think' }),
      });
      const { reasoning, cumulative } = entry.flags;
      const keepReasoning = reasoning === 'remembered' || reasoning === 'required';
      const stream = createOpenAIStream({ reply, keepReasoning, cumulative });
      const send = () => {
        const body = builder.build(request) as unknown as Params;
        return openai.chat.completions
          .create(body, { signal, headers: authHeaders(key, entry) })
          .asResponse();
      };
      return createAttempt({ request, reply, stream, send });
    },
    learn(failure) {
      const lesson = learn(entry.flags, failure);
      if (!lesson) return false;
      entry.flags = lesson.flags;
      log.info(
        { model: entry.name, flags: lesson.changed },
        'the endpoint does not take the request as it was: trying again with these flags; set them in the configuration',
      );
      return true;
    },
  });
  return { ...client, warm: async () => void (await sdk()) };
}

async function load(entry: ModelEntry): Promise<OpenAI> {
  const { default: OpenAI } = await import('openai');
  return new OpenAI({
    // The key goes with each call; there may be several.
    apiKey: 'per-call',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    baseURL: baseUrl(entry.baseUrl),
    maxRetries: 0,
    timeout: 30 * 60_000,
    logLevel: 'off',
    defaultHeaders: entry.extraHeaders,
    fetch: createTransport({ idleTimeoutMs: entry.idleTimeoutMs, wrapJson }),
  });
}

/** With its /v1, which is easily forgotten, and without the path that the SDK adds. */
function baseUrl(url: string): string {
  const base = (url || 'https://api.openai.com/v1').replace(/\/+$/, '').replace(/\/chat\/completions$/, '');
  return /^https?:\/\/[^/]+$/.test(base) ? `${base}/v1` : base;
}

/** A whole completion as a stream of one chunk. */
const wrapJson = (text: string): string | undefined =>
  text.includes('"choices"') ? `data: ${text}\n\ndata: [DONE]\n\n` : undefined;
