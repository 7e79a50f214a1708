// QR codes of logins: for the terminal, and as a picture for the console.
import { renderSVG, renderUnicodeCompact } from 'uqr';

/** White around the code, in modules: scanners look for it. */
const BORDER = 2;

/** Two modules a character, light ones drawn: for terminals with a dark background. */
export const qrForTerminal = (content: string): string => renderUnicodeCompact(content, { border: BORDER });

export const qrAsSvg = (content: string): string => renderSVG(content, { border: BORDER });

export interface QrPrinter {
  /** Prints a code once, however often it is given; undefined: none waits to be scanned any more. */
  show(content: string | undefined): void;
}

/** Codes printed in a row that nobody scanned; the console goes on showing the current one. */
const MAX_UNSCANNED = 3;

export function createQrPrinter(account: string, print: (text: string) => void): QrPrinter {
  let shown: string | undefined;
  let unscanned = 0;
  return {
    show(content) {
      if (content === shown) return;
      shown = content;
      if (content === undefined) {
        unscanned = 0;
        return;
      }
      unscanned += 1;
      if (unscanned > MAX_UNSCANNED) return;
      const last = unscanned === MAX_UNSCANNED ? ' This is the last one here;' : '';
      print(
        `\n${qrForTerminal(content)}\n\nchannel ${account}: scan this code with WeChat to log in.${last} /console shows it, too.\n\n`,
      );
    },
  };
}
