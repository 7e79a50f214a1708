// @ts-check
// Every sentence of the operator's page, in both languages. A key that one of them lacks is a type error.

const en = {
  other_language: '中文',
  sign_in: 'Sign in',
  sign_out: 'Sign out',
  token: 'Admin token',
  token_hint: 'ADMIN_TOKEN, or what the server printed at its first start; it is kept in the data directory.',
  wrong_token: 'This is not the admin token.',
  too_many: 'Too many tries. Wait a minute.',
  failed: 'The server does not answer as it should ({status}).',
  away: 'The server cannot be reached.',
  channels: 'Channels',
  deliveries: 'Parked deliveries',
  failed_messages: 'Failed messages',
  ask_again: 'Ask again',
  conversations: 'Conversations',
  pairings: 'People',
  let_in: 'Let in',
  let_in_by: 'let in by {who}',
  refuse: 'Refuse',
  withdraw: 'Take back',
  none: 'None.',
  more: 'More',
  earlier: 'Earlier messages',
  back: 'Back',
  retry: 'Send again',
  cancel: 'Cancel the run',
  reset: 'Start over',
  reset_sure: 'Forget the history of this conversation?',
  attempts: '{n} attempts',
  pending: '{n} waiting',
  running: 'running',
  summary: 'Summary of what came before',
  tool: 'Tool {name}',
  result: 'Result ({n} characters)',
  starting: 'starting',
  connected: 'connected',
  waiting_for_login: 'waiting for login',
  qr: 'QR code that logs {account} in: scan it with WeChat',
  phone_code: 'Code on the phone',
  enter: 'Enter',
  disconnected: 'disconnected',
  stopped: 'stopped',
  state_failed: 'failed',
  tools: 'Tools',
  tools_on: 'On: {n}',
  reached_find_tools: 'through find_tools',
  reached_after_run: 'after each run',
  source_ok: 'ok',
  source_idle: 'not needed yet',
  source_starting: 'starting',
  source_down: 'down, is tried again',
  source_broken: 'needs you',
};

/** @type {typeof en} */
const zh = {
  other_language: 'English',
  sign_in: '登录',
  sign_out: '退出',
  token: '管理令牌',
  token_hint: 'ADMIN_TOKEN,或服务首次启动时打印的令牌;它保存在数据目录中。',
  wrong_token: '管理令牌不对。',
  too_many: '尝试次数过多,请稍等一分钟。',
  failed: '服务器的回应不正常({status})。',
  away: '无法连接服务器。',
  channels: '渠道',
  deliveries: '搁置的投递',
  failed_messages: '失败的消息',
  ask_again: '重新提问',
  conversations: '会话',
  pairings: '人员',
  let_in: '批准',
  let_in_by: '由 {who} 批准',
  refuse: '拒绝',
  withdraw: '撤销',
  none: '没有。',
  more: '更多',
  earlier: '更早的消息',
  back: '返回',
  retry: '重新发送',
  cancel: '取消运行',
  reset: '重新开始',
  reset_sure: '要清除这个会话的历史吗?',
  attempts: '已尝试 {n} 次',
  pending: '{n} 条等待中',
  running: '运行中',
  summary: '之前内容的摘要',
  tool: '工具 {name}',
  result: '结果({n} 个字符)',
  starting: '启动中',
  connected: '已连接',
  waiting_for_login: '等待登录',
  qr: '登录 {account} 的二维码:请用微信扫描',
  phone_code: '手机上显示的验证码',
  enter: '提交',
  disconnected: '已断开',
  stopped: '已停止',
  state_failed: '失败',
  tools: '工具',
  tools_on: '已启用 {n} 个',
  reached_find_tools: '通过 find_tools 使用',
  reached_after_run: '每次运行之后',
  source_ok: '正常',
  source_idle: '尚未用到',
  source_starting: '启动中',
  source_down: '已断开,会重试',
  source_broken: '需要处理',
};

const KEY = 'lanekeeper-console-language';
const stored = localStorage.getItem(KEY);
export let language = stored ?? (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en');

export function switchLanguage() {
  language = language === 'zh' ? 'en' : 'zh';
  localStorage.setItem(KEY, language);
}

/**
 * @param {keyof typeof en} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const text = (language === 'zh' ? zh : en)[key];
  return text.replace(/\{(\w+)\}/g, (_match, name) => String(values[name] ?? ''));
}
