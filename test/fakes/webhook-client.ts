// A program that talks to the server through its webhook, with an api key.
import { setTimeout as sleep } from 'node:timers/promises';

export const API_KEY = 'test-api-key';

export interface StatusBody {
  id: string;
  conversation: string;
  status: 'queued' | 'running' | 'done' | 'failed';
  reply?: { text: string };
}

export interface PostOptions {
  conversation?: string;
  id?: string;
  headers?: Record<string, string>;
  body?: Record<string, unknown>;
}

export function createWebhookClient(url: () => string, account = 'webhook', key = API_KEY) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };

  const post = (text: string, options: PostOptions = {}): Promise<Response> =>
    fetch(`${url()}/webhook/${account}`, {
      method: 'POST',
      headers: {
        ...headers,
        ...(options.id === undefined ? {} : { 'idempotency-key': options.id }),
        ...options.headers,
      },
      body: JSON.stringify({ conversation: options.conversation ?? 'c1', text, ...options.body }),
    });

  const status = async (id: string): Promise<StatusBody> => {
    const response = await fetch(`${url()}/webhook/${account}/messages/${encodeURIComponent(id)}`, {
      headers,
    });
    if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
    return (await response.json()) as StatusBody;
  };

  return {
    post,
    status,
    /** Posts and resolves with the body of a 200 or 202 answer. */
    async send(text: string, options: PostOptions = {}): Promise<StatusBody> {
      const response = await post(text, options);
      if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
      return (await response.json()) as StatusBody;
    },
    /** Asks for the status until it is final; a server that is down meanwhile is asked again. */
    async settled(id: string, withinMs = 30_000): Promise<StatusBody> {
      const until = Date.now() + withinMs;
      for (;;) {
        const body = await status(id).catch(() => undefined);
        if (body?.status === 'done' || body?.status === 'failed') return body;
        if (Date.now() > until) throw new Error(`message ${id} was not answered: ${JSON.stringify(body)}`);
        await sleep(50);
      }
    },
  };
}

export interface Conversation {
  id: string;
  messages: {
    role: string;
    content: { type: string; text?: string; id?: string }[];
    id?: string;
    run: string;
  }[];
  pending: number;
  run?: string;
}

/** A conversation as the operator's API shows it. */
export async function readConversation(url: string, id: string, adminToken: string): Promise<Conversation> {
  const response = await fetch(`${url}/api/conversations/${encodeURIComponent(id)}`, {
    headers: { authorization: `Bearer ${adminToken}` },
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Conversation;
}
