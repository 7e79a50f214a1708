// Files of messages on disk: store.ts keeps and gives them, types.ts says what they are, sweep.ts removes what is old.
export { createMediaStore } from './store.ts';
export { createMediaSweep } from './sweep.ts';
