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

type Clockface = (at: number) => string;

/** Formats cost far more to make than to use; a conversation asks for the same few zones. */
const MAX_KNOWN_ZONES = 100;
const known = new Map<string | undefined, Clockface>();

function clockface(zone: string | undefined): Clockface {
  const made = known.get(zone);
  if (made !== undefined) return made;
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const { timeZone } = format.resolvedOptions();
  const weekday = new Intl.DateTimeFormat('en', { timeZone: zone, weekday: 'long' });
  const names = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  const face: Clockface = (at) => {
    const offset = names.formatToParts(at).find((part) => part.type === 'timeZoneName')?.value;
    return `${format.format(at)} ${weekday.format(at)}, ${timeZone} (${offset})`;
  };
  if (known.size >= MAX_KNOWN_ZONES) known.clear();
  known.set(zone, face);
  return face;
}

function now(at: number, zone: string | undefined) {
  try {
    const text = clockface(zone)(at);
    return success(text, { display: text });
  } catch {
    return fail(`"${zone}" is not an IANA time zone; examples: Asia/Shanghai, Europe/Berlin, UTC.`);
  }
}
