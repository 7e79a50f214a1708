// The configuration's shape, what every channel account with people has in common: who may talk to the bot, when it answers
// in groups, and whose words count as an administrator's. Enforced by src/inbox, the same on every channel.
import { z } from 'zod';

const ids = z.array(z.string().min(1)).default([]);

export const peopleSettings = {
  access: z
    .strictObject({
      direct: z.enum(['open', 'allowlist', 'pairing']).default('open'),
      allow: ids,
      deny: ids,
      allow_groups: ids,
      deny_groups: ids,
    })
    .prefault({}),
  group: z
    .strictObject({
      trigger: z.enum(['mention', 'prefix', 'always']).default('mention'),
      prefix: z.string().default(''),
      scope: z.enum(['chat', 'sender', 'thread']).default('thread'),
      context_messages: z.number().int().min(0).max(100).default(0),
      max_bot_turns: z.number().int().min(0).default(3),
    })
    .prefault({}),
  admins: ids,
};

const peopleSchema = z.object(peopleSettings);

export type PeopleSettings = z.infer<typeof peopleSchema>;

const OPEN_TO_ALL: PeopleSettings = peopleSchema.parse({});

/** Of an account; one that has no such settings (the chat page, whose keys say who may come) is open to all. */
export function peopleOf(
  channels: Readonly<Record<string, Partial<PeopleSettings> & { type: string }>>,
  account: string,
): PeopleSettings {
  const channel = Object.hasOwn(channels, account) ? channels[account] : undefined;
  return channel ? { ...OPEN_TO_ALL, ...pick(channel) } : OPEN_TO_ALL;
}

function pick({ access, group, admins }: Partial<PeopleSettings>): Partial<PeopleSettings> {
  return { ...(access && { access }), ...(group && { group }), ...(admins && { admins }) };
}

/** Tokens by day; 0: no limit. */
export const spendingLimitsSchema = z.strictObject({
  tokens_per_day_user: z.number().int().nonnegative().default(0),
  tokens_per_day_conversation: z.number().int().nonnegative().default(0),
  time_zone: z.string().default('UTC').refine(isTimeZone, 'must be a time zone such as Asia/Shanghai'),
});

export type SpendingLimits = z.infer<typeof spendingLimitsSchema>;

function isTimeZone(zone: string): boolean {
  return zone === 'UTC' || Intl.supportedValuesOf('timeZone').includes(zone);
}
