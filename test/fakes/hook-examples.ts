// The examples that src/agent/hooks.ts gives with each hook, type-checked here and run by test/unit/agent-hooks.test.ts,
// with the helpers that they leave to the reader.
import type { AgentHooks, AgentPrompt } from '../../src/agent/index.ts';
import type { Message } from '../../src/domain/messages.ts';
import { prompt, scriptedModel } from './agent.ts';

const maskPhoneNumbers = ({ role, content }: Message): Message => ({
  role,
  content: content.map((block) =>
    block.type === 'text' ? { ...block, text: block.text.replaceAll(/\d{11}/gu, '***') } : block,
  ),
});

const withoutFileBlocks = ({ role, content }: Message): Message => ({
  role,
  content: content.filter(({ type }) => type !== 'file'),
});

const redact = (text: string): string => text.replaceAll(/sk-\w+/gu, '***');

export const stronger = scriptedModel(['a better answer'], { name: 'stronger' });

const vault = { read: async (path: string): Promise<string> => `key of ${path}` };

export const calendar = { quiet: false, isQuietHour: async (): Promise<boolean> => calendar.quiet };

const runTheTests: AgentPrompt = prompt('run the tests');
export const tests = { red: 0 };
const testsAreRed = (): boolean => tests.red-- > 0;

export const examples = {
  transformContext: (messages) => messages.map(maskPhoneNumbers),

  convertToModel: (messages) => messages.map(withoutFileBlocks),

  beforeToolCall: ({ tool, args }) =>
    tool.name === 'shell' && /\brm\b/u.test(String(args.command))
      ? { block: true, reason: 'Deleting is off.' }
      : undefined,

  afterToolCall: (_info, result) =>
    typeof result.content === 'string' ? { content: redact(result.content) } : undefined,

  prepareNextTurn: ({ turn }) => (turn === 5 ? { model: stronger, thinking: 'high' } : undefined),

  shouldStopAfterTurn: ({ usage }) => usage.input + usage.output > 200_000 && { reply: 'Enough for today.' },

  getApiKey: (model) => vault.read(`llm/${model}`),

  getSteering: async (inbox) => ((await calendar.isQuietHour()) ? [] : inbox()),

  getFollowUp: async (inbox) => [...(await inbox()), ...(testsAreRed() ? [runTheTests] : [])],
} satisfies AgentHooks;
