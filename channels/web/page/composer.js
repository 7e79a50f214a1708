// @ts-check
// The message box: grows with its text, Enter sends and Shift + Enter doesn't, and neither does the Enter that picks a word
// in an input method. Files go with the text; a message waits until they are with the server.
import { createAttachments } from './attach.js';
import { byId } from './dom.js';

/** @typedef {import('./attach.js').KeptFile} KeptFile */

/** @param {{ onSend: (text: string, files: KeptFile[]) => void, upload: (file: File) => Promise<KeptFile> }} options */
export function createComposer({ onSend, upload }) {
  const form = byId('composer', HTMLFormElement);
  const input = byId('input', HTMLTextAreaElement);
  const send = byId('send', HTMLButtonElement);

  const attachments = createAttachments({ upload, onChange: filesChanged });
  /** Enter was pressed while a file was on its way. */
  let wanted = false;

  const isEmpty = () => input.value.trim() === '' && attachments.files.length === 0;

  function changed() {
    send.disabled = isEmpty() || attachments.busy;
    // Shrinks first: scrollHeight is never less than the height.
    input.style.height = 'auto';
    input.style.height = `${input.scrollHeight}px`;
  }

  function filesChanged() {
    changed();
    if (!wanted || attachments.busy) return;
    wanted = false;
    // What failed is for the writer to decide about.
    if (!attachments.failed) submit();
  }

  function submit() {
    wanted = attachments.busy;
    if (isEmpty() || wanted) return;
    const text = input.value.trim();
    input.value = '';
    onSend(text, attachments.take());
  }

  input.addEventListener('input', changed);
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.altKey) return;
    // Safari ends the composition before this event; 229 is what is left of it then.
    if (event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    submit();
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
    input.focus();
  });
  // A click beside the text is meant for the text.
  form.addEventListener('click', (event) => {
    if (event.target === form) input.focus();
  });

  return {
    focus: () => input.focus(),
    /** Puts a message back to be edited; what is there already stays behind it. @param {string} text @param {readonly KeptFile[]} files */
    insert(text, files) {
      input.value = input.value.trim() === '' ? text : `${text}\n${input.value}`;
      attachments.putBack(files);
      changed();
      input.focus();
    },
  };
}
