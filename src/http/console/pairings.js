// @ts-check
// Strangers who asked to talk to the bot, with the code that they were given, and people who were let in.
import { t } from './strings.js';
import { h, section, when } from './view.js';

/**
 * @typedef {{
 *   code: string,
 *   account: string,
 *   person: string,
 *   name?: string,
 *   at: number,
 *   state: 'waiting' | 'approved',
 *   approved_by?: string,
 * }} Pairing
 */

/**
 * Undefined if there is nobody: most servers pair with nobody.
 * @param {{ items: Pairing[] }} pairings
 * @param {{ approve: (code: string) => void, remove: (code: string) => void }} acts
 */
export function pairingsView({ items }, { approve, remove }) {
  if (items.length === 0) return undefined;
  /** @param {Pairing} pairing */
  const row = ({ code, account, person, name, at, state, approved_by: by }) => {
    const waits = state === 'waiting';
    return h(
      'li',
      { className: `pairing ${state}` },
      h('span', { className: 'name' }, name === undefined ? person : `${name} (${person})`),
      h('span', { className: 'soft' }, account),
      h('code', {}, code),
      when(at),
      waits ? undefined : h('span', { className: 'soft' }, t('let_in_by', { who: by ?? '' })),
      waits ? h('button', { type: 'button', onclick: () => approve(code) }, t('let_in')) : undefined,
      h('button', { type: 'button', onclick: () => remove(code) }, t(waits ? 'refuse' : 'withdraw')),
    );
  };
  // Those who wait come first.
  const sorted = items.toSorted((a, b) => Number(a.state !== 'waiting') - Number(b.state !== 'waiting'));
  const list = section(t('pairings'), sorted.map(row));
  list.id = 'pairings';
  return list;
}
