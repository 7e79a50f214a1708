// @ts-check
// The start of the chat page: preferences, then whether a key is needed, then the page itself.
import { Problem, getSession } from './api.js';
import { byId } from './dom.js';
import { createPage } from './page.js';
import { askForKey } from './sign-in.js';
import { preference, setPreference } from './store.js';
import { chooseLanguage, currentLanguage, problemText, setLanguage, translatePage } from './strings.js';

/** @param {() => void} onChange */
function setUpPreferences(onChange) {
  const language = byId('language', HTMLSelectElement);
  const theme = byId('theme', HTMLSelectElement);
  setLanguage(chooseLanguage(preference('language')));
  translatePage();
  language.value = currentLanguage();
  language.addEventListener('change', () => {
    setPreference('language', language.value);
    setLanguage(chooseLanguage(language.value));
    translatePage();
    onChange();
  });
  theme.value = document.documentElement.dataset.theme ?? 'auto';
  theme.addEventListener('change', () => {
    setPreference('theme', theme.value);
    if (theme.value === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}

async function main() {
  /** @type {ReturnType<typeof createPage> | undefined} */
  let page;
  setUpPreferences(() => page?.redraw());
  const session = await firstAnswer();
  const wanted = new URLSearchParams(location.search).get('account');
  const account = session.accounts.find(({ name }) => name === wanted) ?? session.accounts[0];
  if (account === undefined) throw new Error('The server has no account for this page.');
  /** @type {Promise<void> | undefined} */
  let asking;
  const signInAgain = () => (asking ??= askForKey().finally(() => (asking = undefined)));
  if (!account.signed_in) await signInAgain();
  page = createPage(account.name, signInAgain);
  page.start();
}

/** The server may still be starting: asks until it answers. */
async function firstAnswer() {
  for (;;) {
    try {
      return await getSession();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      byId('load-failed', HTMLElement).hidden = false;
      byId('load-problem', HTMLElement).textContent = problemText(error);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, error.retryAfterMs ?? 2_000);
        byId('load-again', HTMLButtonElement).addEventListener(
          'click',
          () => {
            clearTimeout(timer);
            resolve(undefined);
          },
          { once: true },
        );
      });
      byId('load-failed', HTMLElement).hidden = true;
    }
  }
}

main().catch((error) => console.error(error));
