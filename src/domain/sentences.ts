// The fixed sentences that people read in a chat, in Chinese and English: ends that are not normal, commands, refusals.
// Pure text; everything a model says goes elsewhere.

export type Language = 'zh' | 'en';

/** `{name}` is replaced from the parameters. */
const SENTENCES = {
  // Ends of a run. "Again" is always something that the reader can do.
  empty_reply: {
    zh: '抱歉，我没能给出回答。请换个说法再试一次。',
    en: "Sorry, I couldn't come up with an answer. Please try putting it another way.",
  },
  model_failed: {
    zh: '抱歉，模型现在无法回答。请稍后再试。',
    en: "Sorry, the model can't answer right now. Please try again later.",
  },
  model_busy: {
    zh: '模型现在很忙，请稍等片刻再试。',
    en: 'The model is busy right now. Please try again in a moment.',
  },
  model_setup: {
    zh: '模型的账号设置有问题，需要管理员处理。',
    en: "The model's account isn't set up correctly; an administrator has to look at it.",
  },
  model_refused: {
    zh: '模型拒绝回答这个请求。请换个说法再试。',
    en: 'The model declined to answer this. Please try putting it another way.',
  },
  cancelled: { zh: '已取消。', en: 'Cancelled.' },
  cancelled_mark: { zh: '（已取消）', en: '(cancelled)' },
  step_limit: {
    zh: '这个任务的步骤太多，我先停在这里。你可以让我继续，或者把任务拆小一些。',
    en: 'This took more steps than I may take, so I stopped here. Tell me to go on, or split the task.',
  },
  too_many_failures: {
    zh: '抱歉，工具“{tool}”连续失败了多次，我先停下来。请检查请求，或稍后再试。',
    en: 'Sorry, the tool "{tool}" kept failing, so I stopped. Please check the request or try again later.',
  },
  context_overflow: {
    zh: '这次的内容超出了模型一次能读的长度。对话记录都还在；请把内容缩短后再发，或用 /new 开始新对话。',
    en: 'That was more than the model can read at once. The conversation is kept; please send less, or start over with /new.',
  },
  stopped: { zh: '我先停在这里。', en: 'I stopped here.' },
  given_up: {
    zh: '抱歉，处理这条消息时多次意外中断，我放弃了这次尝试。请再发一次。',
    en: 'Sorry, working on this message was interrupted too many times, so I gave up. Please send it again.',
  },

  // Refusals.
  usage_limit_user: {
    zh: '你今天的用量已达上限，请明天再来。',
    en: "You have reached today's usage limit. Please come back tomorrow.",
  },
  usage_limit_conversation: {
    zh: '这个对话今天的用量已达上限，请明天再来。',
    en: "This conversation has reached today's usage limit. Please come back tomorrow.",
  },
  not_allowed: { zh: '你没有权限这样做。', en: "You aren't allowed to do that." },
  admins_only: {
    zh: '这会影响群里的其他人，只有管理员可以这样做。',
    en: 'This changes things for others, so only an administrator may do it.',
  },
  pairing: {
    zh: '你好！我还不认识你。请把配对码 {code} 发给管理员；管理员用 /approve {code} 批准后，你就可以和我对话了。',
    en: "Hello! I don't know you yet. Give the code {code} to an administrator; once they have approved it with /approve {code}, you can talk to me.",
  },
  let_in: {
    zh: '管理员已经批准，你现在可以和我对话了。',
    en: 'An administrator has let you in: you can talk to me now.',
  },
  storage_trouble: {
    zh: '消息没能保存下来，请稍后再发一次。',
    en: "Your message couldn't be saved. Please send it again in a moment.",
  },
  file_gone: {
    zh: '文件“{name}”已过期，发不出来了。',
    en: 'The file "{name}" has expired and can no longer be sent.',
  },

  // Commands.
  help: {
    zh: '直接发消息就能和我对话。\n/new 开始新对话\n/stop 停止正在进行的回答\n/retry 再回答一次上一条消息\n/compact 把较早的对话整理成摘要\n/usage 查看用量\n/model 查看或选择模型\n/status 查看状态\n/help 显示这段说明',
    en: 'Just write to me.\n/new starts a new conversation\n/stop stops the answer in progress\n/retry answers the last message again\n/compact sums up the earlier conversation\n/usage shows the tokens used\n/model shows the models, or chooses one\n/status shows what is going on\n/help shows this text',
  },
  reset_done: { zh: '好的，我们重新开始。', en: "All right, let's start over." },
  stopping: { zh: '好的，正在停止。', en: 'All right, stopping.' },
  nothing_to_stop: { zh: '现在没有正在进行的回答。', en: 'There is nothing to stop right now.' },
  status_running: {
    zh: '正在回答。等待中的消息：{pending}；对话记录：{messages} 条。',
    en: 'Answering. Messages waiting: {pending}; conversation entries: {messages}.',
  },
  status_idle: {
    zh: '空闲。等待中的消息：{pending}；对话记录：{messages} 条。',
    en: 'Idle. Messages waiting: {pending}; conversation entries: {messages}.',
  },
  usage: {
    zh: '这个对话的用量：输入 {input} 个 token（其中缓存 {cached}），输出 {output} 个。今天：输入 {input_today} 个（其中缓存 {cached_today}），输出 {output_today} 个。',
    en: 'Used by this conversation: {input} tokens in ({cached} of them cached), {output} out. Today: {input_today} in ({cached_today} cached), {output_today} out.',
  },
  compacting: {
    zh: '好的，下一条消息之前我会先把较早的对话整理成摘要。',
    en: 'All right, I will sum up the earlier conversation before the next message.',
  },
  nothing_to_compact: { zh: '还没有可以整理的对话。', en: 'There is nothing to sum up yet.' },
  nothing_to_retry: { zh: '还没有可以再回答一次的消息。', en: 'There is no message to answer again yet.' },
  models: {
    zh: '当前模型：{model}。\n可选：{models}。\n用 /model 名称 来选择，/model default 恢复默认。',
    en: 'The model is {model}.\nThere are: {models}.\nChoose with /model NAME; /model default goes back to the default one.',
  },
  model_chosen: {
    zh: '好的，从下一条消息起使用 {model}。',
    en: 'All right, {model} answers from the next message on.',
  },
  no_such_model: {
    zh: '没有模型“{model}”。可选：{models}。',
    en: 'There is no model "{model}". There are: {models}.',
  },
  approved: { zh: '已批准：{person}。', en: 'Approved: {person}.' },
  no_such_code: { zh: '没有这个配对码，或者它已经过期。', en: 'There is no such code, or it is too old.' },
} as const satisfies Record<string, Record<Language, string>>;

export type SentenceKey = keyof typeof SENTENCES;

export function sentence(
  key: SentenceKey,
  language: Language,
  parameters: Record<string, string | number> = {},
): string {
  return SENTENCES[key][language].replaceAll(/\{(\w+)\}/gu, (whole, name: string) =>
    String(parameters[name] ?? whole),
  );
}

const HAN = /\p{Script=Han}/gu;
const KANA = /[\p{Script=Hiragana}\p{Script=Katakana}]/u;
const WORDS = /[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Hangul}]+/gu;

/** Enough to tell a language by; the rest of a long message isn't read. */
const SAMPLE_CHARS = 2_000;

/** Chinese if it has more Han characters than words in letters; `fallback` if it has neither (numbers, emoji). */
export function languageOf(text: string, fallback: Language = 'en'): Language {
  const sample = text.slice(0, SAMPLE_CHARS);
  if (KANA.test(sample)) return 'en';
  const han = sample.match(HAN)?.length ?? 0;
  const words = sample.match(WORDS)?.length ?? 0;
  if (han === 0 && words === 0) return fallback;
  return han > words ? 'zh' : 'en';
}
