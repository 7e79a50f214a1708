// @ts-check
// Keeps the newest text in sight, unless the reader has scrolled away from it.
import { byId } from './dom.js';

const NEAR_PX = 60;

export function createScroll() {
  const scroller = byId('scroller', HTMLElement);
  const latest = byId('latest', HTMLButtonElement);
  let following = true;
  let lastTop = 0;

  const distance = () => scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop;
  const toEnd = () => {
    scroller.scrollTop = scroller.scrollHeight;
    lastTop = scroller.scrollTop;
  };

  scroller.addEventListener(
    'scroll',
    () => {
      // Only moving up leaves the end: text that grows below moves nothing.
      if (scroller.scrollTop < lastTop && distance() > NEAR_PX) following = false;
      else if (distance() <= NEAR_PX) following = true;
      lastTop = scroller.scrollTop;
      latest.hidden = following;
    },
    { passive: true },
  );
  latest.addEventListener('click', () => {
    following = true;
    latest.hidden = true;
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    scroller.scrollTo({ top: scroller.scrollHeight, behavior: calm ? 'instant' : 'smooth' });
  });
  // A window or keyboard that changes the height must not hide the end.
  new ResizeObserver(() => {
    if (following) toEnd();
  }).observe(scroller);

  return {
    /** After the content has changed. */
    settle() {
      if (following) toEnd();
      else latest.hidden = distance() <= NEAR_PX;
    },
    follow() {
      following = true;
      latest.hidden = true;
    },
    /** Runs what adds content above without moving what is in sight. @param {() => void} change */
    keepPlace(change) {
      const fromEnd = scroller.scrollHeight - scroller.scrollTop;
      change();
      scroller.scrollTop = scroller.scrollHeight - fromEnd;
      lastTop = scroller.scrollTop;
    },
  };
}
