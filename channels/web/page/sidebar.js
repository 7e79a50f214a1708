// @ts-check
// The list of this browser's conversations: a column on a wide screen, a drawer on a narrow one.
import { byId, h, icon } from './dom.js';
import { t } from './strings.js';

/** @typedef {import('./store.js').ChatEntry} ChatEntry */

/**
 * @param {{
 *   onOpen: (id: string) => void,
 *   onNew: () => void,
 *   onRemove: (id: string) => void,
 * }} actions
 */
export function createSidebar({ onOpen, onNew, onRemove }) {
  const sidebar = byId('sidebar', HTMLElement);
  const main = byId('main', HTMLElement);
  const scrim = byId('scrim', HTMLElement);
  const openButton = byId('open-menu', HTMLButtonElement);
  const closeButton = byId('close-menu', HTMLButtonElement);
  const list = byId('chats', HTMLUListElement);
  const dialog = byId('remove', HTMLDialogElement);
  const narrow = matchMedia('(max-width: 859px)');
  let removing = '';
  let open = false;

  /** @param {boolean} value */
  function setOpen(value) {
    open = value && narrow.matches;
    sidebar.classList.toggle('open', open);
    scrim.hidden = !open;
    main.inert = open;
    sidebar.inert = narrow.matches && !open;
    openButton.setAttribute('aria-expanded', String(open));
  }

  function close() {
    if (!open) return;
    setOpen(false);
    openButton.focus();
  }

  openButton.addEventListener('click', () => {
    setOpen(true);
    closeButton.focus();
  });
  closeButton.addEventListener('click', close);
  scrim.addEventListener('click', close);
  sidebar.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close();
  });
  narrow.addEventListener('change', () => setOpen(false));
  for (const id of ['new-chat', 'new-chat-top']) {
    byId(id, HTMLButtonElement).addEventListener('click', () => {
      setOpen(false);
      onNew();
    });
  }
  dialog.addEventListener('close', () => {
    if (dialog.returnValue === 'remove') onRemove(removing);
  });
  setOpen(false);

  return {
    /** @param {readonly ChatEntry[]} chats @param {string} current */
    render(chats, current) {
      byId('chats-empty', HTMLElement).hidden = chats.length > 0;
      list.replaceChildren(
        ...chats.map(({ id, title }) =>
          h(
            'li',
            {},
            h(
              'button',
              {
                type: 'button',
                class: 'chat',
                title,
                'aria-current': id === current ? 'page' : undefined,
                click: () => {
                  setOpen(false);
                  onOpen(id);
                },
              },
              title,
            ),
            h(
              'button',
              {
                type: 'button',
                class: 'icon-button remove',
                title: t('remove_chat'),
                'aria-label': `${t('remove_chat')}: ${title}`,
                click: () => {
                  removing = id;
                  dialog.returnValue = '';
                  dialog.showModal();
                },
              },
              icon('trash'),
            ),
          ),
        ),
      );
    },
  };
}
