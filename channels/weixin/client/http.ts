// One exchange with iLink or its CDN: headers, time-outs, sizes, and answers that can be wrong. Rejects with WeixinError only.
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { troubleOf, WeixinError } from './errors.ts';

/** The release of Tencent's client (github.com/Tencent/openclaw-weixin) whose protocol this is. */
const CHANNEL_VERSION = '2.4.9';
const CLIENT_VERSION = (2 << 16) | (4 << 8) | 9;
const BOT_AGENT = 'Lanekeeper/0.1.0';
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

export interface Exchange {
  url: string;
  /** POST it; absent: GET. */
  body?: Record<string, unknown>;
  /** Of the bot: goes with a body that says who asks. */
  token?: string;
  timeoutMs: number;
  signal: AbortSignal;
}

const answerSchema = z.looseObject({
  ret: z.number().optional(),
  errcode: z.number().optional(),
  errmsg: z.string().nullish(),
});

export async function exchange({ url, body, token, timeoutMs, signal }: Exchange): Promise<unknown> {
  const headers: Record<string, string> = {
    'iLink-App-Id': 'bot',
    'iLink-App-ClientVersion': String(CLIENT_VERSION),
  };
  if (body) {
    headers['content-type'] = 'application/json';
    headers['AuthorizationType'] = 'ilink_bot_token';
    headers['X-WECHAT-UIN'] = Buffer.from(String(randomInt(2 ** 32))).toString('base64');
  }
  if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
  const base_info = { channel_version: CHANNEL_VERSION, bot_agent: BOT_AGENT };
  const sent = body && JSON.stringify(token === undefined ? body : { ...body, base_info });
  const init = sent === undefined ? { headers } : { method: 'POST', headers, body: sent };
  const { response, bytes } = await request(url, init, MAX_ANSWER_BYTES, timeoutMs, signal);
  const { data: answer } = answerSchema.safeParse(parse(bytes));
  const trouble = answer && troubleOf(answer.ret, answer.errcode, answer.errmsg ?? '');
  if (trouble) throw trouble;
  if (!response.ok) throw new WeixinError('away', `WeChat answered HTTP ${response.status}`);
  if (!answer) throw new WeixinError('away', 'WeChat answered something that is not its protocol');
  return answer;
}

/** Never follows a redirect: a token would go with it. */
export async function request(
  url: string,
  init: RequestInit,
  maxBytes: number,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<{ response: Response; bytes: Buffer }> {
  const limit = AbortSignal.timeout(timeoutMs);
  try {
    const ends = AbortSignal.any([signal, limit]);
    const response = await fetch(url, { ...init, redirect: 'error', signal: ends });
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > maxBytes) throw new WeixinError('refused', `larger than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    return { response, bytes: Buffer.concat(chunks, size) };
  } catch (error) {
    if (error instanceof WeixinError) throw error;
    const late = limit.aborted && !signal.aborted;
    // Address and body can hold secrets: only the system's code is told.
    throw new WeixinError('away', `no answer from WeChat (${late ? 'time-out' : reasonOf(error)})`, late);
  }
}

/** Ids are uint64: digits that a number can't hold stay text. */
function parse(bytes: Buffer): unknown {
  const whole = (_key: string, value: unknown, { source }: { source?: string } = {}): unknown =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) ? source : value;
  try {
    return JSON.parse(bytes.toString('utf8'), whole);
  } catch {
    // A proxy's page, or half an answer.
    return undefined;
  }
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return error instanceof Error && error.name === 'AbortError' ? 'stopped' : 'connection failed';
}
