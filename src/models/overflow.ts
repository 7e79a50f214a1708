// Model layer: does this message of a vendor mean that the context is too long? Every vendor words it its own way, so
// this looks for a subject (context, prompt, input, tokens) and an excess, after taking out what only sounds like it.

/** Limits on rate, spending, output or pictures: another remedy than a shorter context. */
const OTHER = [
  /rate[ _-]?limit|too many requests|per[ -](?:second|minute|min|hour|day)\b|\b[rt]p[mds]\b|throttl|please wait|\b(?:hourly|daily|monthly)\b/,
  /quota|credit|balance|billing|budget/,
  /time(?:d)?[ -]?out/,
  /频率|限流|速率|并发|余额|额度|欠费/,
  // "Invalid 'messages[1].tool_calls[0].id': string too long"
  /(?:\.id|\.name|\.description)['"`]?:? .*string too long/,
];

/** A picture or file that is too big; with tokens named, it is the context after all. */
const MEDIA = /image|picture|photo|pixel|audio|video|\bfile\b|attachment|图片|图像|文件/;

const OUTPUT_LIMIT = /max_?(?:completion_|output_|new_)?tokens|maxoutputtokens/;

const OVERFLOW = [
  /context[ _]length[ _]exceeded|context[ _]window[ _]exceeded|prompt[ _]too[ _]long|request_too_large/,
  /context[ _-]?(?:length|window|size|limit).{0,80}(?:exceed|longer|larger|greater|maximum|only|try increasing|beyond)/,
  /(?:exceed|longer than|larger than|greater than|beyond|over|maximum|too (?:long|large)).{0,60}context[ _-]?(?:length|window|size|limit)?/,
  /(?:prompt|inputs?)\b.{0,80}(?:too long|too large|exceed|longer than|greater than|over the limit|surpass|max length)/,
  /(?:messages?|conversation|request|history|query)\b.{0,80}(?:too long|(?:too large|exceed|longer|greater|over the limit|surpass).*(?:token|length|size|char|limit))/,
  /(?:range of|maximum|max) (?:allowed )?(?:input|prompt) (?:token )?length|input length should/,
  /tokens?\b.{0,80}(?:exceed|surpass|must be (?:less|<=?))/,
  /exceed.{0,80}(?:token limit|tokens allowed|max(?:imum)? (?:message )?tokens|number of tokens|context)/,
  /too many (?:total )?(?:input |prompt )?tokens|too many (?:total )?(?:text bytes|input characters)/,
  /max(?:imum)? input (?:characters|chars|tokens)/,
  /token limit reached|\d tokens?\b.{0,40}\b(?:limit|maximum)\b/,
  /reduce the length of (?:the|your)|tokens to keep from the initial prompt/,
  /(?:上下文|输入|提示词?|prompt|对话|消息|文本|tokens?).{0,16}(?:超长|过长|太长|超出|超过|超限|超上限)|长度.{0,4}(?:超出|超过)/,
  /(?:超出|超过).{0,16}(?:上下文|最大长度|输入长度|token ?(?:数|上限|限制))/,
];

export function isOverflow(message: string): boolean {
  const text = message.toLowerCase();
  if (OTHER.some((pattern) => pattern.test(text))) return false;
  if (MEDIA.test(text) && !/token/.test(text)) return false;
  if (OUTPUT_LIMIT.test(text) && !outputLimitIsContext(text)) return false;
  return OVERFLOW.some((pattern) => pattern.test(text));
}

/**
 * A message about max_tokens is about the context only if it names the input too ("input length and `max_tokens`
 * exceed context limit"). vLLM names both even when the setting alone is absurd: then what counts is whether the input
 * is a good part of the window.
 */
function outputLimitIsContext(text: string): boolean {
  const sizes = /context length is (\d+) tokens and your request has (\d+) input tokens/.exec(text);
  if (sizes) return Number(sizes[2]) * 2 >= Number(sizes[1]);
  return /input|prompt|messages|context (?:limit|window|length)/.test(text);
}
