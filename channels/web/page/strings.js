// @ts-check
// Every sentence of the page, in both languages. A key that one of them lacks is a type error.

const en = {
  new_chat: 'New conversation',
  chats: 'Conversations',
  chats_empty: 'Your conversations will be listed here. Only this browser knows them.',
  open_menu: 'Open the list of conversations',
  close_menu: 'Close the list of conversations',
  remove_chat: 'Remove from the list',
  remove_title: 'Remove this conversation?',
  remove_text: 'It disappears from this browser’s list. The server keeps its history.',
  remove: 'Remove',
  keep: 'Keep',
  language: 'Language',
  theme: 'Appearance',
  theme_auto: 'System',
  theme_light: 'Light',
  theme_dark: 'Dark',
  skip: 'Skip to the message box',
  messages: 'Messages',
  you: 'You',
  welcome: 'What’s on your mind?',
  welcome_text: 'Ask a question, or let the assistant use its tools. The answer appears as it is written.',
  suggestions: 'Suggestions',
  suggestion_1: 'What can you do?',
  suggestion_2: 'What time is it in Shanghai?',
  suggestion_3: 'Write a short poem about waiting in line',
  earlier: 'Earlier messages',
  latest: 'Latest',
  input: 'Message',
  placeholder: 'Write a message…',
  hint: 'Enter sends · Shift + Enter starts a new line',
  send: 'Send',
  stop: 'Stop the answer',
  stopping: 'Stopping…',
  stopped: 'Stopped',
  working: 'Working on it…',
  thinking: 'Thinking…',
  thought: 'Reasoning',
  thought_for: 'Thought for {time}',
  tool_waiting: 'waiting',
  tool_running: 'running',
  tool_done: 'done',
  tool_failed: 'failed',
  tool_unknown: 'no result',
  tool_input: 'Input',
  tool_output: 'Result',
  copy: 'Copy',
  copied: 'Copied',
  code: 'code',
  file: 'File: {name}',
  image: 'Image: {name}',
  file_gone: '{name} (no longer there)',
  attach: 'Attach files',
  attached: 'Files for the next message',
  remove_file: 'Remove {name}',
  uploading: 'uploading…',
  file_too_large: 'too large',
  file_refused: 'this kind of file is not taken',
  file_unreadable: 'could not be read',
  bytes: '{n} B',
  kilobytes: '{n} kB',
  megabytes: '{n} MB',
  sending: 'Sending…',
  waiting: 'Waiting its turn',
  failed: 'Not sent.',
  retry: 'Send again',
  edit: 'Edit',
  loading: 'Loading…',
  reconnecting: 'Connection lost. Reconnecting…',
  offline: 'You are offline. What you write is sent when the connection is back.',
  connected: 'Connected again.',
  answer_started: 'The answer is being written.',
  answer: 'Answer: {text}',
  using_tool: 'Using {name}.',
  key_title: 'This page asks for a key',
  key_text: 'The operator of this server can tell you the key. This browser stays signed in.',
  key: 'Key',
  key_wrong: 'That key is not right.',
  sign_in: 'Sign in',
  e_network: 'The server can’t be reached. Trying again…',
  e_rate_limited: 'Too many messages at once. Trying again in a moment…',
  e_server: 'The server has a problem. Trying again…',
  e_draining: 'The server is restarting. Trying again…',
  e_too_large: 'The message is too long.',
  e_forbidden: 'The server does not allow this.',
  e_not_found: 'The server does not know this conversation page.',
  e_wait: 'Too many attempts. Wait a minute.',
  e_other: 'The server refused it: {detail}',
  e_load: 'The conversation could not be loaded.',
  e_cancel: 'The answer could not be stopped: the server can’t be reached.',
  try_again: 'Try again',
  milliseconds: '{n} ms',
  seconds: '{n} s',
  minutes: '{m} min {s} s',
};

/** @typedef {keyof typeof en} StringKey */

/** @type {Record<StringKey, string>} */
const zh = {
  new_chat: '新对话',
  chats: '对话',
  chats_empty: '你的对话会列在这里，只有这个浏览器知道。',
  open_menu: '打开对话列表',
  close_menu: '关闭对话列表',
  remove_chat: '从列表中移除',
  remove_title: '移除这个对话？',
  remove_text: '它会从本浏览器的列表中消失，服务器仍保留其历史记录。',
  remove: '移除',
  keep: '保留',
  language: '语言',
  theme: '外观',
  theme_auto: '跟随系统',
  theme_light: '浅色',
  theme_dark: '深色',
  skip: '跳到输入框',
  messages: '消息',
  you: '你',
  welcome: '想聊点什么？',
  welcome_text: '提个问题，或让助手使用工具。回答会边写边显示。',
  suggestions: '建议',
  suggestion_1: '你能做什么？',
  suggestion_2: '上海现在几点？',
  suggestion_3: '写一首关于排队的小诗',
  earlier: '更早的消息',
  latest: '最新消息',
  input: '消息',
  placeholder: '输入消息…',
  hint: 'Enter 发送 · Shift + Enter 换行',
  send: '发送',
  stop: '停止回答',
  stopping: '正在停止…',
  stopped: '已停止',
  working: '正在处理…',
  thinking: '思考中…',
  thought: '思考过程',
  thought_for: '思考了 {time}',
  tool_waiting: '等待中',
  tool_running: '运行中',
  tool_done: '完成',
  tool_failed: '失败',
  tool_unknown: '无结果',
  tool_input: '输入',
  tool_output: '结果',
  copy: '复制',
  copied: '已复制',
  code: '代码',
  file: '文件：{name}',
  image: '图片：{name}',
  file_gone: '{name}（已不存在）',
  attach: '添加文件',
  attached: '随下一条消息发送的文件',
  remove_file: '移除 {name}',
  uploading: '上传中…',
  file_too_large: '文件太大',
  file_refused: '不接受这种文件',
  file_unreadable: '无法读取',
  bytes: '{n} B',
  kilobytes: '{n} kB',
  megabytes: '{n} MB',
  sending: '发送中…',
  waiting: '排队中',
  failed: '未发送。',
  retry: '重新发送',
  edit: '编辑',
  loading: '加载中…',
  reconnecting: '连接已断开，正在重新连接…',
  offline: '你已离线。恢复连接后会自动发送你写的内容。',
  connected: '已重新连接。',
  answer_started: '正在回答。',
  answer: '回答：{text}',
  using_tool: '正在使用 {name}。',
  key_title: '请输入密钥',
  key_text: '密钥可向本服务器的管理员索取。此浏览器会保持登录。',
  key: '密钥',
  key_wrong: '密钥不正确。',
  sign_in: '登录',
  e_network: '无法连接服务器，正在重试…',
  e_rate_limited: '消息过于频繁，稍后自动重试…',
  e_server: '服务器出现问题，正在重试…',
  e_draining: '服务器正在重启，正在重试…',
  e_too_large: '消息太长了。',
  e_forbidden: '服务器不允许此操作。',
  e_not_found: '服务器上没有这个对话页面。',
  e_wait: '尝试次数过多，请稍等一分钟。',
  e_other: '服务器拒绝了请求：{detail}',
  e_load: '无法加载对话。',
  e_cancel: '无法停止回答：连接不到服务器。',
  try_again: '重试',
  milliseconds: '{n} 毫秒',
  seconds: '{n} 秒',
  minutes: '{m} 分 {s} 秒',
};

/** @typedef {'en' | 'zh'} Language */
const TABLES = { en, zh };

/** @type {Language} */
let language = 'en';

/** @param {string | undefined} remembered @returns {Language} */
export function chooseLanguage(remembered) {
  const wanted = remembered ?? navigator.language;
  return wanted.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

/** @param {Language} value */
export function setLanguage(value) {
  language = value;
  document.documentElement.lang = value === 'zh' ? 'zh-CN' : 'en';
}

export const currentLanguage = () => language;

/** @param {StringKey} key @param {Record<string, string | number>} [values] */
export function t(key, values = {}) {
  return TABLES[language][key].replaceAll(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = ms / 1000;
  if (ms < 995) return t('milliseconds', { n: Math.round(ms) });
  if (seconds < 10) return t('seconds', { n: Math.round(seconds * 10) / 10 });
  if (seconds < 60) return t('seconds', { n: Math.round(seconds) });
  return t('minutes', { m: Math.floor(seconds / 60), s: Math.round(seconds % 60) });
}

/** @param {number} bytes */
export function fileSize(bytes) {
  if (bytes < 1_000) return t('bytes', { n: bytes });
  if (bytes < 999_500) return t('kilobytes', { n: Math.round(bytes / 1_000) });
  return t('megabytes', { n: Math.round(bytes / 100_000) / 10 });
}

/** The sentence for a failed request. @param {import('./api.js').Problem} problem */
export function problemText(problem) {
  if (problem.status === 0) return navigator.onLine ? t('e_network') : t('offline');
  if (problem.code === 'draining') return t('e_draining');
  if (problem.status === 429) return t('e_rate_limited');
  if (problem.status >= 500) return t('e_server');
  // Its length is all that can be wrong with what the page sends.
  if (problem.status === 413 || problem.code === 'invalid_body') return t('e_too_large');
  if (problem.status === 403) return t('e_forbidden');
  if (problem.status === 404) return t('e_not_found');
  return t('e_other', { detail: problem.detail || problem.code });
}

/** Fills in the static parts of the page: `data-t` is the text, `data-t-label` the accessible name. */
export function translatePage() {
  for (const element of document.querySelectorAll('[data-t]')) {
    element.textContent = t(/** @type {StringKey} */ (element.getAttribute('data-t')));
  }
  for (const element of document.querySelectorAll('[data-t-label]')) {
    const text = t(/** @type {StringKey} */ (element.getAttribute('data-t-label')));
    element.setAttribute('aria-label', text);
    if (element.matches('button, select')) element.setAttribute('title', text);
  }
  for (const element of document.querySelectorAll('[data-t-placeholder]')) {
    element.setAttribute(
      'placeholder',
      t(/** @type {StringKey} */ (element.getAttribute('data-t-placeholder'))),
    );
  }
}
