// @ts-check
// Files for the next message: chosen, dropped or pasted, sent to the server at once, and shown above the message box until
// the message goes. What the server has is named by its reference.
import { Problem } from './api.js';
import { byId, h, icon } from './dom.js';
import { problemText, t } from './strings.js';

/** @typedef {{ ref: string, media_type: string, size: number, name?: string }} KeptFile */
/** @typedef {{ element: HTMLElement, kept?: KeptFile, failed?: boolean }} Chip */

const MAX_FILES = 10;

/** @param {{ upload: (file: File) => Promise<KeptFile>, onChange: () => void }} options */
export function createAttachments({ upload, onChange }) {
  const list = byId('attached', HTMLElement);
  const input = byId('files', HTMLInputElement);
  const drop = byId('main', HTMLElement);
  /** @type {Chip[]} */
  let chips = [];

  /** @param {string} name @returns {Chip} */
  function addChip(name) {
    const state = h('span', { class: 'chip-state' });
    const remove = () => {
      chips = chips.filter((other) => other !== chip);
      chip.element.remove();
      changed();
    };
    const label = t('remove_file', { name });
    const element = h(
      'li',
      { class: 'chip' },
      icon('file'),
      h('span', { class: 'chip-name' }, name),
      state,
      h(
        'button',
        { type: 'button', class: 'icon-button small', 'aria-label': label, click: remove },
        icon('close'),
      ),
    );
    /** @type {Chip} */
    const chip = { element };
    chips.push(chip);
    list.append(element);
    return chip;
  }

  function changed() {
    list.hidden = chips.length === 0;
    onChange();
  }

  /** @param {Chip} chip @param {string} text */
  const say = (chip, text) => {
    const state = chip.element.querySelector('.chip-state');
    if (state) state.textContent = text;
  };

  /** @param {File} file */
  async function send(file) {
    const chip = addChip(file.name);
    say(chip, t('uploading'));
    changed();
    try {
      chip.kept = await upload(file);
      say(chip, '');
    } catch (error) {
      chip.failed = true;
      chip.element.classList.add('failed');
      say(chip, error instanceof Problem ? fileProblem(error) : t('file_unreadable'));
    }
    changed();
  }

  /** @param {Iterable<File>} files */
  function add(files) {
    for (const file of [...files].slice(0, MAX_FILES - chips.length)) {
      send(file).catch((error) => console.error(error));
    }
  }

  byId('attach', HTMLButtonElement).addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    add(input.files ?? []);
    // The same file may be chosen again.
    input.value = '';
  });
  byId('input', HTMLTextAreaElement).addEventListener('paste', (event) => {
    const files = event.clipboardData?.files;
    if (!files?.length) return;
    event.preventDefault();
    add(files);
  });
  drop.addEventListener('dragover', (event) => {
    if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
  });
  drop.addEventListener('drop', (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    add(event.dataTransfer.files);
  });

  return {
    /** One is on its way still. */
    get busy() {
      return chips.some(({ kept, failed }) => !kept && !failed);
    },
    get failed() {
      return chips.some(({ failed }) => failed);
    },
    get files() {
      return chips.flatMap(({ kept }) => kept ?? []);
    },
    /** They go with a message. @returns {KeptFile[]} */
    take() {
      const files = chips.flatMap(({ kept }) => kept ?? []);
      for (const { element } of chips) element.remove();
      chips = [];
      changed();
      return files;
    },
    /** Puts files back that the server has. @param {readonly KeptFile[]} files */
    putBack(files) {
      for (const kept of files) addChip(kept.name ?? kept.media_type).kept = kept;
      changed();
    },
  };
}

/** @param {Problem} problem */
function fileProblem(problem) {
  if (problem.code === 'payload_too_large' || problem.status === 413) return t('file_too_large');
  return problem.code === 'media_refused' ? t('file_refused') : problemText(problem);
}
