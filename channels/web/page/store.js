// @ts-check
// What this browser remembers: preferences, the list of its conversations, and messages that the history doesn't show yet.
// Where storage is blocked (private windows, policies) everything works for as long as the page is open.

/** @returns {Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>} */
function open() {
  try {
    localStorage.setItem('lanekeeper.probe', '1');
    localStorage.removeItem('lanekeeper.probe');
    return localStorage;
  } catch {
    /** @type {Map<string, string>} */
    const map = new Map();
    return {
      getItem: (key) => map.get(key) ?? null,
      setItem: (key, value) => void map.set(key, value),
      removeItem: (key) => void map.delete(key),
      key: (index) => [...map.keys()][index] ?? null,
      get length() {
        return map.size;
      },
    };
  }
}

const storage = open();

/** @param {string} key @param {unknown} value */
function write(key, value) {
  try {
    storage.setItem(key, JSON.stringify(value));
  } catch (error) {
    console.warn('The browser did not store this; it is kept until the page is closed.', error);
  }
}

/** @param {string} key @returns {unknown} */
function read(key) {
  try {
    return JSON.parse(storage.getItem(key) ?? 'null');
  } catch {
    return null; // not ours, or from another version
  }
}

/** @param {string} name 'language' or 'theme' @returns {string | undefined} */
export function preference(name) {
  const value = read(`lanekeeper.${name}`);
  return typeof value === 'string' ? value : undefined;
}
/** @param {string} name @param {string} value */
export const setPreference = (name, value) => write(`lanekeeper.${name}`, value);

/** 128 random bits as text: who knows the id of a conversation can read it. */
export function randomId() {
  // Not randomUUID, which exists on https and localhost only.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replace(/=+$/, '')
    .replaceAll('+', '-')
    .replaceAll('/', '_');
}

/** The conversation that this tab shows, so that a reload comes back to it. @param {string} account */
export function createCurrent(account) {
  const key = `lanekeeper.current.${account}`;
  return {
    get() {
      try {
        return sessionStorage.getItem(key) ?? undefined;
      } catch {
        return undefined;
      }
    },
    /** @param {string} id */
    set(id) {
      try {
        sessionStorage.setItem(key, id);
      } catch {
        // Blocked: a reload opens the newest conversation instead.
      }
    },
  };
}

/** @typedef {{ id: string, title: string, at: number }} ChatEntry */
const MAX_CHATS = 100;

/** The conversations of this browser, newest first. @param {string} account */
export function createChatList(account) {
  const key = `lanekeeper.chats.${account}`;
  /** @returns {ChatEntry[]} */
  const all = () => {
    const value = read(key);
    return Array.isArray(value) ? value.filter((entry) => typeof entry?.id === 'string') : [];
  };
  return {
    all,
    /** Puts it first. @param {ChatEntry} entry */
    touch(entry) {
      write(key, [entry, ...all().filter(({ id }) => id !== entry.id)].slice(0, MAX_CHATS));
    },
    /** @param {string} id */
    remove(id) {
      write(
        key,
        all().filter((entry) => entry.id !== id),
      );
    },
    /** Calls back when another tab changed the list. @param {() => void} listener */
    onChange(listener) {
      addEventListener('storage', (event) => {
        if (event.key === key) listener();
      });
    },
  };
}

/** @typedef {{ id: string, chat: string, text: string, files?: import('./attach.js').KeptFile[], at: number, sent: boolean }} OutgoingMessage */

/** One key per message, so that tabs don't overwrite each other's. @param {string} account */
export function createOutgoingStore(account) {
  const prefix = `lanekeeper.outgoing.${account}.`;
  return {
    /** @returns {OutgoingMessage[]} oldest first */
    all() {
      /** @type {OutgoingMessage[]} */
      const messages = [];
      for (let index = 0; index < storage.length; index++) {
        const key = storage.key(index);
        if (!key?.startsWith(prefix)) continue;
        const value = /** @type {OutgoingMessage | null} */ (read(key));
        if (typeof value?.id === 'string') messages.push(value);
      }
      return messages.sort((a, b) => a.at - b.at);
    },
    /** @param {OutgoingMessage} message */
    put: (message) => write(prefix + message.id, message),
    /** @param {string} id */
    remove: (id) => storage.removeItem(prefix + id),
    /** Calls back when another tab put or removed one. @param {(id: string, message: OutgoingMessage | null) => void} listener */
    onChange(listener) {
      addEventListener('storage', ({ key }) => {
        if (!key?.startsWith(prefix)) return;
        listener(key.slice(prefix.length), /** @type {OutgoingMessage | null} */ (read(key)));
      });
    },
  };
}
