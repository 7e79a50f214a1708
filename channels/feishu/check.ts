// For `npm run doctor`: are the credentials good, is the bot there, which scopes and event subscriptions are missing. The platform
// tells the subscriptions only to an app with a scope for it; without it, what must be subscribed to is said.
import type { FeishuSettings } from '../../config/schema.ts';
import type { FeishuApi, Subscriptions } from './client/api.ts';

interface Told {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

/** Any one of a row is enough; the first one is what the operator's README asks for. */
export const NEEDED: { scopes: string[]; for: string; must: boolean }[] = [
  { scopes: ['im:message.p2p_msg:readonly', 'im:message.p2p_msg'], for: 'direct messages', must: true },
  {
    scopes: ['im:message.group_at_msg:readonly', 'im:message.group_at_msg'],
    for: 'mentions in groups',
    must: true,
  },
  { scopes: ['im:message:send_as_bot', 'im:message'], for: 'answering', must: true },
  { scopes: ['im:message:readonly', 'im:message'], for: 'quoted messages', must: false },
  { scopes: ['im:message:update', 'im:message'], for: 'updating answers', must: false },
  {
    scopes: ['im:message:recall', 'im:message', 'im:message:send_as_bot'],
    for: 'taking back an unfinished answer',
    must: false,
  },
  { scopes: ['im:message.reactions:write_only'], for: 'the Typing reaction', must: false },
  { scopes: ['cardkit:card:write'], for: 'answers that grow in a card', must: false },
  { scopes: ['im:resource'], for: 'pictures and files', must: false },
  { scopes: ['contact:user.base:readonly'], for: 'names of people', must: false },
];

const EVENTS = [
  { event: 'im.message.receive_v1', for: 'without it no message comes in', must: true },
  {
    event: 'im.message.recalled_v1',
    for: 'without it a message that is taken back is answered still',
    must: false,
  },
];
const WHERE = 'under Events & Callbacks, and publish a version';
const SUBSCRIBE = `subscribe to ${EVENTS.map(({ event }) => event).join(' and ')} ${WHERE}`;
const TELLS_EVENTS = 'application:application:self_manage';

/** Never rejects. */
export async function checkApp(
  api: Pick<FeishuApi, 'bot' | 'scopes' | 'subscriptions'>,
  { app_id, mode }: Pick<FeishuSettings, 'app_id' | 'mode'>,
): Promise<Told[]> {
  const told: Told[] = [];
  try {
    const { name } = await api.bot();
    told.push({ state: 'ok', text: `app ${app_id}, bot ${name || '(nameless)'}, mode ${mode}` });
  } catch (error) {
    const text = `${reasonOf(error)}; check app_id, app_secret and domain, and that the app has the Bot capability`;
    return [{ state: 'wrong', text }];
  }
  try {
    const granted = await api.scopes();
    for (const { scopes, for: purpose, must } of NEEDED) {
      if (scopes.some((scope) => granted.has(scope))) continue;
      told.push({
        state: must ? 'wrong' : 'note',
        text: `scope ${scopes[0]} is missing, for ${purpose}: grant it and publish a version`,
      });
    }
  } catch (error) {
    told.push({ state: 'note', text: `the app's scopes can't be read (${reasonOf(error)})` });
  }
  return [...told, ...(await checkEvents(api, mode))];
}

async function checkEvents(
  api: Pick<FeishuApi, 'subscriptions'>,
  mode: FeishuSettings['mode'],
): Promise<Told[]> {
  let found: Subscriptions | undefined;
  let reason = 'the platform does not tell';
  try {
    found = await api.subscriptions();
  } catch (error) {
    reason = reasonOf(error);
  }
  if (!found) {
    const text = `the event subscriptions can't be read (${reason}); the scope ${TELLS_EVENTS} lets the app read them. By hand: ${SUBSCRIBE}`;
    return [{ state: 'note', text }];
  }
  const { events } = found;
  const told = EVENTS.filter(({ event }) => !events.has(event)).map(({ event, for: purpose, must }): Told => {
    const text = `the event ${event} is not subscribed to, ${purpose}: add it ${WHERE}`;
    return { state: must ? 'wrong' : 'note', text };
  });
  if (found.mode !== undefined && found.mode !== mode) {
    const text = `events go out by ${found.mode}, but the account's mode is ${mode}: change one of them`;
    told.push({ state: 'wrong', text });
  }
  return told.length > 0 ? told : [{ state: 'ok', text: 'subscribed to the events that are needed' }];
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown');
