// The time: in any zone, summer time included, and a zone that does not exist.
import { describe, expect, it } from 'vitest';
import { createNowTool } from '../../src/tools/now.ts';
import { systemClock } from '../../src/system-clock.ts';
import { brief, messagesOf, play, type ScriptedCall } from '../fakes/agent.ts';

/** 30 November 2026, 03:30 UTC. */
const WINTER = Date.UTC(2026, 10, 30, 3, 30);
const SUMMER = Date.UTC(2026, 6, 1, 22, 15);

async function told(at: number, zone?: string) {
  const tools = [createNowTool({ ...systemClock, now: () => at })];
  const call: ScriptedCall = ['now', zone === undefined ? {} : { zone }];
  const { result, events } = await play({ tools, script: [{ calls: [call] }, 'done'] });
  const end = events.find((event) => event.type === 'tool_execution_end');
  return { said: brief(messagesOf(result))[2], end };
}

describe('now', () => {
  it.each([
    [WINTER, 'Asia/Shanghai', '2026-11-30 11:30:00 Monday, Asia/Shanghai (GMT+08:00)'],
    [WINTER, 'UTC', '2026-11-30 03:30:00 Monday, UTC (GMT+00:00)'],
    [WINTER, 'America/Los_Angeles', '2026-11-29 19:30:00 Sunday, America/Los_Angeles (GMT-08:00)'],
    [WINTER, 'Europe/Berlin', '2026-11-30 04:30:00 Monday, Europe/Berlin (GMT+01:00)'],
    [SUMMER, 'Europe/Berlin', '2026-07-02 00:15:00 Thursday, Europe/Berlin (GMT+02:00)'],
    [WINTER, 'Australia/Adelaide', '2026-11-30 14:00:00 Monday, Australia/Adelaide (GMT+10:30)'],
  ])('at %s in %s', async (at, zone, text) => {
    const { said, end } = await told(at, zone);
    expect(said).toBe(`result ${text}`);
    expect(end).toMatchObject({ display: text, result_chars: text.length, duration_ms: expect.any(Number) });
  });

  it("knows the server's zone by itself, and says which zones there are", async () => {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    expect((await told(WINTER)).said).toContain(timeZone);
    for (const zone of ['Mars/Olympus', '', '../../etc/localtime'])
      expect((await told(WINTER, zone)).said).toMatch(/^error .*is not an IANA time zone; examples/);
  });
});
