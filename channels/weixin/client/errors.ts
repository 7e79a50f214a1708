// What can go wrong in a call. Messages are safe to show: no token, no QR code, no address that holds one.

/** `dead`: only a new login helps. `undelivered`: taken, and yet not shown. `refused`: any other code. `away`: no answer. */
export type Trouble = 'dead' | 'throttled' | 'undelivered' | 'refused' | 'away';

export class WeixinError extends Error {
  readonly kind: Trouble;
  /** It just took too long. */
  readonly late: boolean;

  constructor(kind: Trouble, message: string, late = false) {
    super(message);
    this.name = 'WeixinError';
    this.kind = kind;
    this.late = late;
  }
}

const DEAD = -14;
const THROTTLED = -2;

/** Of an answer's `ret` and `errcode`; undefined: it is fine. */
export function troubleOf(ret = 0, errcode = 0, errmsg = ''): WeixinError | undefined {
  if (ret === DEAD || errcode === DEAD)
    return new WeixinError('dead', `the login is not valid any more (code ${DEAD})`);
  const code = ret === 0 ? errcode : ret;
  if (code === 0) return undefined;
  const told = `code ${code}${errmsg === '' ? '' : `: ${errmsg.slice(0, 200)}`}`;
  return code === THROTTLED
    ? new WeixinError('throttled', `too many requests (${told})`)
    : new WeixinError('refused', `WeChat refused (${told})`);
}
