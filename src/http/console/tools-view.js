// @ts-check
// What the operator's page shows of the tools: how their sources are, and what is on, from where, and for whom.
import { t } from './strings.js';
import { h, section } from './view.js';

/**
 * @param {{ items: { name: string, description: string, from: string, for: string[], reached: string }[],
 *   sources: { name: string, state: string, detail?: string }[] }} tools
 */
export function toolsView({ items, sources }) {
  const states = sources.map(({ name, state, detail }) =>
    h(
      'li',
      {},
      h('span', { className: 'name' }, name),
      h(
        'span',
        { className: ['down', 'broken'].includes(state) ? 'bad' : 'soft' },
        t(/** @type {Parameters<typeof t>[0]} */ (`source_${state}`)),
      ),
      detail,
    ),
  );
  const rows = items.map((item) =>
    h(
      'li',
      { title: item.description },
      h('span', { className: 'name' }, item.name),
      h('span', { className: 'soft' }, item.from),
      item.for.join('; '),
      item.reached === 'directly'
        ? undefined
        : h(
            'span',
            { className: 'soft' },
            t(/** @type {Parameters<typeof t>[0]} */ (`reached_${item.reached}`)),
          ),
    ),
  );
  const list = h('details', {}, h('summary', {}, t('tools_on', { n: items.length })), h('ul', {}, ...rows));
  return section(t('tools'), states, items.length > 0 ? list : undefined);
}
