// For `npm run doctor`: is everything installed, and what is known of the puppet's kind. Nothing is started.
import { findPackageJSON } from 'node:module';
import type { WechatSettings } from '../../config/schema.ts';
import { missing } from './account.ts';
import { isInstalled } from './child/puppet.ts';

interface Told {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

/** What to expect of the puppets that people know by name; see README.md. */
const KNOWN: Record<string, string> = {
  'wechaty-puppet-wechat4u':
    'it speaks the free web protocol, which WeChat refuses for many accounts, and everybody has another id after each login',
  'wechaty-puppet-wechat': 'it drives the web page in a browser, which WeChat refuses for many accounts',
  'wechaty-puppet-padlocal': 'it needs a paid token, and its service has been down',
  'wechaty-puppet-service': 'it needs a token of a puppet service',
  'wechaty-puppet-mock': 'it is for tests: no WeChat is behind it',
};

/** Never throws. */
export function checkAccount({ puppet }: Pick<WechatSettings, 'puppet'>): Told[] {
  if (!hasWechaty()) return [{ state: 'wrong', text: missing('wechaty', puppet) }];
  if (!isInstalled(puppet)) return [{ state: 'wrong', text: missing('puppet', puppet) }];
  const note = KNOWN[puppet];
  return [
    { state: 'ok', text: `puppet ${puppet}; the code to scan is shown in the terminal and at /console` },
    ...(note === undefined ? [] : [{ state: 'note' as const, text: `${puppet}: ${note}` }]),
  ];
}

function hasWechaty(): boolean {
  try {
    return findPackageJSON('wechaty', import.meta.url) !== undefined;
  } catch {
    return false;
  }
}
