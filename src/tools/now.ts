// The `now` tool: the time in a zone. Harmless, so it is on by default.
import { fail, success, type Tool } from '../ports/tool.ts';
import type { Clock } from '../ports/clock.ts';

export function createNowTool(clock: Clock): Tool {
  return {
    name: 'now',
    description: 'The current date and time in a time zone.',
    parameters: {
      type: 'object',
      properties: {
        zone: {
          type: 'string',
          description: "IANA time zone, for example Asia/Shanghai. Default: the server's.",
        },
      },
      additionalProperties: false,
    },
    execution: 'parallel',
    idempotent: true,
    timeoutMs: 1_000,
    execute: (args) =>
      Promise.resolve(now(clock.now(), typeof args['zone'] === 'string' ? args['zone'] : undefined)),
  };
}

function now(at: number, zone: string | undefined) {
  try {
    const format = new Intl.DateTimeFormat('sv-SE', {
      timeZone: zone,
      dateStyle: 'short',
      timeStyle: 'medium',
    });
    const weekday = new Intl.DateTimeFormat('en', { timeZone: zone, weekday: 'long' }).format(at);
    const offset = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' })
      .formatToParts(at)
      .find((part) => part.type === 'timeZoneName')?.value;
    const text = `${format.format(at)} ${weekday}, ${format.resolvedOptions().timeZone} (${offset})`;
    return success(text, { display: text });
  } catch {
    return fail(`"${zone}" is not an IANA time zone; examples: Asia/Shanghai, Europe/Berlin, UTC.`);
  }
}
