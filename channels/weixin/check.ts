// For `npm run doctor`: does the platform answer, is somebody logged in, and is the login still good.
import type { Login, WeixinApi } from './client/api.ts';
import { WeixinError } from './client/errors.ts';

interface Told {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

export interface CheckOptions {
  api: Pick<WeixinApi, 'typingTicket'>;
  baseUrl: string;
  login: () => Promise<Login | undefined>;
}

const PATIENCE_MS = 5_000;

/** Never rejects. */
export async function checkAccount({ api, baseUrl, login }: CheckOptions): Promise<Told[]> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  let known: Login | undefined;
  try {
    known = await login();
  } catch {
    // Embedded storage belongs to the server that runs.
    return [{ state: 'note', text: 'the running server knows whether somebody is logged in: see /console' }];
  }
  try {
    if (!known) {
      await fetch(baseUrl, { method: 'HEAD', redirect: 'manual', signal });
      return [
        {
          state: 'note',
          text: 'nobody is logged in: start the server and scan the QR code (terminal, /console)',
        },
      ];
    }
    await api.typingTicket(known, known.userId || known.botId, undefined, signal);
    return [{ state: 'ok', text: `logged in as ${known.botId}` }];
  } catch (error) {
    if (error instanceof WeixinError && error.kind === 'dead')
      return [{ state: 'wrong', text: 'the login is over: scan the QR code that the running server shows' }];
    // It answers, and that is what was asked.
    if (known && error instanceof WeixinError && error.kind !== 'away')
      return [{ state: 'ok', text: `logged in as ${known.botId} (${error.message})` }];
    return [
      { state: 'wrong', text: `${new URL(baseUrl).host} does not answer: check base_url and the network` },
    ];
  }
}
