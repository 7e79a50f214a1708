// Types of /assets/chat/vendor/marked.esm.js, which the server serves from the installed package.
export { Marked, type Token, type Tokens } from 'marked';
