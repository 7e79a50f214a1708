// @ts-check
// Asks for the key when the server wants one. The key goes to the server once; a cookie that scripts can't read remembers it.
import { Problem, signIn } from './api.js';
import { byId } from './dom.js';
import { problemText, t } from './strings.js';

/** Resolves when the browser is signed in. */
export function askForKey() {
  const dialog = byId('sign-in', HTMLDialogElement);
  const form = byId('sign-in-form', HTMLFormElement);
  const input = byId('key', HTMLInputElement);
  const problem = byId('sign-in-problem', HTMLElement);

  /** @type {PromiseWithResolvers<void>} */
  const { promise, resolve } = Promise.withResolvers();

  async function submit() {
    problem.textContent = '';
    try {
      await signIn(input.value);
    } catch (error) {
      problem.textContent = sentence(error);
      input.select();
      return;
    }
    input.value = '';
    asked.abort();
    dialog.close();
    resolve();
  }

  const asked = new AbortController();
  const { signal } = asked;
  form.addEventListener(
    'submit',
    (event) => {
      event.preventDefault();
      submit().catch((error) => console.error(error));
    },
    { signal },
  );
  // Nothing works without the key: Escape leads nowhere.
  dialog.addEventListener('cancel', (event) => event.preventDefault(), { signal });
  if (!dialog.open) dialog.showModal();
  input.focus();
  return promise;
}

/** @param {unknown} error */
function sentence(error) {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) return t('key_wrong');
  if (error.status === 429) return t('e_wait');
  return problemText(error);
}
