// The child process's end of the line.
import { Socket } from 'node:net';
import { createLine, type Line } from './line.ts';

/** What start.ts makes it. */
const FD = 3;

/** Keeps the process alive until the server ends it, or is gone itself. What the server says may be believed. */
export function lineToServer(onMessage: (message: unknown) => void, onEnd: () => void): Line {
  const socket = new Socket({ fd: FD, readable: true, writable: true });
  return createLine(socket, {
    maxBytes: Number.MAX_SAFE_INTEGER,
    onMessage,
    onEnd,
  });
}
