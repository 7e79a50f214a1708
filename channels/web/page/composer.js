// @ts-check
// The message box: grows with its text, Enter sends and Shift + Enter doesn't, and neither does the Enter that picks a word
// in an input method.
import { byId } from './dom.js';

/** @param {{ onSend: (text: string) => void }} options */
export function createComposer({ onSend }) {
  const form = byId('composer', HTMLFormElement);
  const input = byId('input', HTMLTextAreaElement);
  const send = byId('send', HTMLButtonElement);

  function changed() {
    send.disabled = input.value.trim() === '';
    // Shrinks first: scrollHeight is never less than the height.
    input.style.height = 'auto';
    input.style.height = `${input.scrollHeight}px`;
  }

  function submit() {
    const text = input.value.trim();
    if (text === '') return;
    input.value = '';
    changed();
    onSend(text);
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
    /** Puts a text back to be edited; what is there already stays behind it. @param {string} text */
    insert(text) {
      input.value = input.value.trim() === '' ? text : `${text}\n${input.value}`;
      changed();
      input.focus();
    },
  };
}
