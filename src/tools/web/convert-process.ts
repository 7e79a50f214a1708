// A process of its own for what strangers' files do to parsers: HTML → Markdown, PDF → text. convert.ts starts it, gives it
// one input, and kills it.
import { lineToServer } from '../../child/server.ts';
import type { Conversion, ConversionAnswer, Converted } from './convert.ts';

const MAX_PDF_PAGES = 300;

const line = lineToServer((message) => {
  const input = message as Conversion;
  const conversion = input.kind === 'html' ? fromHtml(input.text, input.base) : fromPdf(input.body);
  conversion.then(
    (converted) => answer({ converted }),
    (error: unknown) => answer({ error: error instanceof Error ? error.message : String(error) }),
  );
}, end);

function answer(message: ConversionAnswer): void {
  line.send(message, end);
}

function end(): never {
  process.exit(0);
}

async function fromHtml(html: string, base: string): Promise<Converted> {
  const { default: Turndown } = await import('turndown');
  const turndown = new Turndown({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
    hr: '---',
  });
  // What is not read by people, or is on every page of a site.
  turndown.remove([
    'script',
    'style',
    'noscript',
    'iframe',
    'object',
    'canvas',
    'template',
    'nav',
    'form',
    'title',
  ]);
  turndown.remove(
    (node) => ['svg', 'footer'].includes(node.nodeName.toLowerCase()) || node.hasAttribute('hidden'),
  );
  turndown.addRule('link', {
    filter: 'a',
    replacement(content, node) {
      const href = absolute((node as Element).getAttribute('href'), base);
      const text = content.replaceAll(/\s+/gu, ' ').trim();
      return href === undefined || text === '' ? text : `[${text}](${href})`;
    },
  });
  turndown.addRule('picture', {
    filter: 'img',
    replacement(_content, node) {
      const alt = (node as Element).getAttribute('alt')?.trim() ?? '';
      return alt === '' ? '' : `(picture: ${alt})`;
    },
  });
  turndown.addRule('cell', {
    filter: ['td', 'th'],
    replacement: (content) =>
      ` ${content
        .trim()
        .replaceAll(/\s*\n\s*/gu, ' ')
        .replaceAll('|', String.raw`\|`)} |`,
  });
  turndown.addRule('row', {
    filter: 'tr',
    replacement(content, node) {
      const names = Array.from(node.childNodes, ({ nodeName }) => nodeName).filter((name) =>
        /^T[DH]$/u.test(name),
      );
      const isHead = names.length > 0 && names.every((name) => name === 'TH');
      return `|${content}\n${isHead ? `|${' --- |'.repeat(names.length)}\n` : ''}`;
    },
  });
  const title = /<title[^>]*>([^<]{1,500})/iu.exec(html)?.[1] ?? '';
  return {
    title: turndown.turndown(`<p>${title}</p>`).replaceAll(/\s+/gu, ' ').replaceAll('\\', '').trim(),
    text: turndown
      .turndown(html)
      .replaceAll(/\n{3,}/gu, '\n\n')
      .trim(),
  };
}

/** Undefined for what is no page: scripts, inline data, marks within the same page. */
function absolute(href: string | null, base: string): string | undefined {
  if (!href || href.startsWith('#')) return undefined;
  const url = URL.parse(href, base);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url.href : undefined;
}

async function fromPdf(body: Uint8Array): Promise<Converted> {
  const { getDocumentProxy, getMeta } = await import('unpdf');
  // No Buffer, which it refuses.
  const pdf = await getDocumentProxy(new Uint8Array(body), { verbosity: 0 });
  const pages: string[] = [];
  for (let n = 1; n <= Math.min(pdf.numPages, MAX_PDF_PAGES); n++) {
    const { items } = await (await pdf.getPage(n)).getTextContent();
    pages.push(items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join(''));
  }
  if (pdf.numPages > MAX_PDF_PAGES) pages.push(`(${pdf.numPages - MAX_PDF_PAGES} more pages are left out)`);
  const title: unknown = await getMeta(pdf).then(
    ({ info }) => (info as Record<string, unknown>)['Title'],
    () => undefined,
  );
  return { title: typeof title === 'string' ? title : '', text: pages.join('\n\n').trim() };
}
