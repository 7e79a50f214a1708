// @ts-check
// A file on the screen: a picture that browsers decode themselves is shown, everything else is a download. The server sends files
// in a way that nothing in them runs; see src/http/files.ts.
import { h, icon } from './dom.js';
import { fileSize, t } from './strings.js';

/** @typedef {{ name: string, media_type?: string | undefined, size?: number | undefined, ref?: string | undefined }} ShownFile */

const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;

/** @param {string} account */
export const createFileUrl =
  (account) =>
  (/** @type {ShownFile} */ { ref = '', name }) =>
    ref.startsWith('media:')
      ? `/web/${encodeURIComponent(account)}/media/${ref.slice('media:'.length)}?name=${encodeURIComponent(name)}`
      : undefined;

/** @param {ShownFile} file @param {(file: ShownFile) => string | undefined} fileUrl */
export function createFileView(file, fileUrl) {
  const url = fileUrl(file);
  if (url === undefined) return foreignFile(file);
  const { name, media_type = '', size } = file;
  if (!PICTURE.test(media_type)) {
    const about = size === undefined ? undefined : h('span', { class: 'size' }, fileSize(size));
    return h('a', { class: 'file', href: url, download: name }, icon('file'), h('span', {}, name), about);
  }
  const picture = h('img', { src: url, alt: t('image', { name }), loading: 'lazy', decoding: 'async' });
  const link = h('a', { class: 'picture', href: url, target: '_blank', rel: 'noopener' }, picture);
  // Expired, or no picture after all: its name is what is left.
  picture.addEventListener('error', () => link.replaceWith(named(t('file_gone', { name }))), { once: true });
  return link;
}

/** Of another host: a link, so that looking at the page tells nobody anything. @param {ShownFile} file */
function foreignFile({ ref = '', name }) {
  if (!/^https?:\/\//.test(ref)) return named(t('file', { name }));
  const away = { class: 'file', href: ref, target: '_blank', rel: 'noopener noreferrer' };
  return h('a', away, icon('file'), h('span', {}, name));
}

/** @param {string} text */
const named = (text) => h('p', { class: 'file' }, icon('file'), text);
