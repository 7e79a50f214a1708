// For `npm run doctor`: are the credentials good, is the bot there, which scopes are missing. Event subscriptions can't be asked
// for with an app's own token; what must be subscribed to is said instead.
import type { FeishuSettings } from '../../config/schema.ts';
import type { FeishuApi } from './client/api.ts';

interface Told {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

/** Any one of a row is enough. */
const NEEDED: { scopes: string[]; for: string; must: boolean }[] = [
  { scopes: ['im:message.p2p_msg:readonly', 'im:message.p2p_msg'], for: 'direct messages', must: true },
  {
    scopes: ['im:message.group_at_msg:readonly', 'im:message.group_at_msg'],
    for: 'mentions in groups',
    must: true,
  },
  { scopes: ['im:message:send_as_bot', 'im:message'], for: 'answering', must: true },
  { scopes: ['im:message:update', 'im:message'], for: 'updating answers', must: false },
  { scopes: ['im:message.reactions:write_only'], for: 'the Typing reaction', must: false },
  { scopes: ['cardkit:card:write'], for: 'answers that grow in a card', must: false },
  { scopes: ['im:resource'], for: 'pictures and files', must: false },
  { scopes: ['contact:user.base:readonly'], for: 'names of people', must: false },
];

const EVENTS = 'subscribe to im.message.receive_v1 and im.message.recalled_v1 under Events & Callbacks';

/** Never rejects. */
export async function checkApp(
  api: Pick<FeishuApi, 'bot' | 'scopes'>,
  { app_id, mode }: Pick<FeishuSettings, 'app_id' | 'mode'>,
): Promise<Told[]> {
  const told: Told[] = [];
  try {
    const { name } = await api.bot();
    told.push({ state: 'ok', text: `app ${app_id}, bot ${name || '(nameless)'}, mode ${mode}; ${EVENTS}` });
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
  return told;
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown');
