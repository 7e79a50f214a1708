// The sentences for chat users, and telling Chinese from everything else.
import { describe, expect, it } from 'vitest';
import { languageOf, sentence } from '../../src/domain/sentences.ts';

describe('languageOf', () => {
  it.each<[string, 'zh' | 'en']>([
    ['你好', 'zh'],
    ['hello', 'en'],
    ['帮我看看 README.md 的 install section', 'zh'],
    ['Who is 王伟?', 'en'],
    ['请把 "The quick brown fox" 翻译成中文', 'zh'],
    ['こんにちは、世界', 'en'],
    ['привет', 'en'],
    ['안녕하세요', 'en'],
    ['12:30 🙂', 'en'],
    ['', 'en'],
  ])('%s', (text, language) => {
    expect(languageOf(text)).toBe(language);
  });

  it('falls back where the text tells nothing', () => {
    expect(languageOf('👍', 'zh')).toBe('zh');
    expect(languageOf('ok', 'zh')).toBe('en');
  });

  it('reads no more of a long text than it needs', () => {
    expect(languageOf('你好'.repeat(500_000))).toBe('zh');
  });
});

describe('sentence', () => {
  it('fills in its parameters', () => {
    expect(sentence('status_idle', 'en', { pending: 0, messages: 12 })).toBe(
      'Idle. Messages waiting: 0; conversation entries: 12.',
    );
    expect(sentence('too_many_failures', 'zh', { tool: 'read' })).toContain('“read”');
  });

  it('leaves what it is not given', () => {
    expect(sentence('status_idle', 'en', { pending: 1 })).toContain('{messages}');
  });

  it('is Chinese in Chinese, and English in English', () => {
    for (const key of [
      'empty_reply',
      'model_failed',
      'cancelled',
      'help',
      'not_allowed',
      'storage_trouble',
    ] as const) {
      expect(languageOf(sentence(key, 'zh'))).toBe('zh');
      expect(languageOf(sentence(key, 'en'))).toBe('en');
    }
  });
});
