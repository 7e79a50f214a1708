// One-line messages of the scripts, on stderr: standard output belongs to the program that is started.

export function say(message) {
  process.stderr.write(`lanekeeper: ${message}\n`);
}

/** @returns {never} */
export function fail(message) {
  say(message);
  process.exit(1);
}

export const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;
