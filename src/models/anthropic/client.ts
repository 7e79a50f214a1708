// ModelClient for Anthropic's messages API and those who copy it. The only place that knows @anthropic-ai/sdk, which is
// loaded at the first call.
//
// The SDK makes the request; the answer is read in sse.ts, because the SDK drops every event without a name, and an error
// unless the event is named so.
import type Anthropic from '@anthropic-ai/sdk';
import type { ModelClient } from '../../ports/model.ts';
import { createRequestBuilder } from './request.ts';
import { createAnthropicStream } from './stream.ts';
import { createAttempt, createClient, lazily } from '../client.ts';
import { createReply } from '../reply.ts';
import { authHeaders, type ModelEntry } from '../settings.ts';
import { createTransport } from '../transport.ts';

export interface AnthropicClient extends ModelClient {
  /** Loads the SDK ahead of the first call. */
  warm(): Promise<void>;
}

export function createAnthropicClient(entry: ModelEntry): AnthropicClient {
  const builder = createRequestBuilder(entry);
  const sdk = lazily(() => load(entry));
  const client = createClient({
    entry,
    async attempt(request, key, signal) {
      const anthropic = await sdk();
      const reply = createReply({ model: entry.model, thinkTags: entry.flags.think_tags });
      const stream = createAnthropicStream(reply);
      const send = () => {
        const body = builder.build(request) as unknown as Anthropic.MessageCreateParamsStreaming;
        return anthropic.messages.create(body, { signal, headers: authHeaders(key, entry) }).asResponse();
      };
      return createAttempt({ request, reply, stream, send });
    },
  });
  return { ...client, warm: async () => void (await sdk()) };
}

async function load(entry: ModelEntry): Promise<Anthropic> {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  return new Anthropic({
    // The key goes with each call; there may be several.
    apiKey: 'per-call',
    webhookKey: null,
    baseURL: baseUrl(entry.baseUrl),
    maxRetries: 0,
    timeout: 30 * 60_000,
    logLevel: 'off',
    defaultHeaders: {
      ...(entry.anthropicVersion && { 'anthropic-version': entry.anthropicVersion }),
      ...entry.extraHeaders,
    },
    fetch: createTransport({ idleTimeoutMs: entry.idleTimeoutMs, wrapJson }),
  });
}

/** Without the /v1 that the SDK adds. */
const baseUrl = (url: string): string =>
  (url || 'https://api.anthropic.com').replace(/\/+$/, '').replace(/\/v1(?:\/messages)?$/, '');

/** A whole message as a stream of one event. */
const wrapJson = (text: string): string | undefined =>
  text.includes('"type":"message"') ? `data: ${text}\n\n` : undefined;
