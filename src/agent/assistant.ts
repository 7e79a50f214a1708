// A model's reply → the assistant's message as it is kept, and the calls in it, ready to be made or already refused.
import type { Block, Message, StopReason, ToolUseBlock } from '../domain/messages.ts';
import { textOf } from '../domain/messages.ts';
import type { RawToolCall, ReplyBlock } from '../ports/model.ts';
import type { Tool } from '../ports/tool.ts';
import { parseArguments } from './arguments.ts';
import type { Run } from './run.ts';
import { truncateThinking } from './truncate.ts';
import { checkArguments } from './validate.ts';
import { unknownTool } from './wording.ts';

/** A call on its way. `problem`: why it cannot be made, for the model. */
export interface Call {
  block: ToolUseBlock;
  /** Arguments as one text: what the breakers compare. */
  key: string;
  tool?: Tool;
  /** Valid for the tool's schema; what the tool gets. */
  args: Record<string, unknown>;
  problem?: string;
}

export interface AssistantReply {
  message: Message;
  calls: Call[];
  text: string;
}

/** `calls` of a reply that may have none (tools were disabled) are dropped. */
export function readReply(
  run: Run,
  content: readonly ReplyBlock[],
  stop: StopReason,
  withCalls = true,
): AssistantReply {
  const blocks: Block[] = [];
  const calls: Call[] = [];
  for (const block of content) {
    if (block.type === 'tool_call') {
      if (!withCalls) continue;
      const call = readCall(run, block, stop);
      calls.push(call);
      blocks.push(call.block);
    } else if (block.type === 'thinking') {
      blocks.push(truncateThinking(block, run.options.settings.thinking_kept_chars));
    } else if (block.type !== 'text' || block.text !== '') {
      blocks.push(block);
    }
  }
  return { message: { role: 'assistant', content: blocks }, calls, text: textOf(blocks) };
}

function readCall(run: Run, raw: RawToolCall, stop: StopReason): Call {
  const parsed = parseArguments(raw.arguments, stop);
  const block: ToolUseBlock = {
    type: 'tool_use',
    id: run.transcript.callId(raw.id === '' ? `call_${run.options.base.run}_${run.turn}` : raw.id),
    name: raw.name,
    input: parsed.ok ? parsed.args : {},
    ...(raw.extra === undefined ? {} : { extra: raw.extra }),
  };
  if (!parsed.ok) return { block, key: raw.arguments, args: {}, problem: parsed.message };
  return checkCall(run, block, parsed.repaired);
}

/** Looks up the tool and checks the arguments. */
export function checkCall(run: Run, block: ToolUseBlock, repaired = false): Call {
  const key = JSON.stringify(block.input);
  const tool = run.tools.get(block.name);
  if (!tool) return { block, key, args: {}, problem: unknownTool(block.name, run.tools.keys()) };
  const checked = checkArguments(tool, block.input, repaired);
  if (!checked.ok) return { block, key, tool, args: {}, problem: checked.message };
  if (checked.unchecked !== undefined) {
    const { name } = tool;
    run.options.log.warn(
      { tool: name, problem: checked.unchecked },
      'the schema of this tool is unusable: its arguments go unchecked',
    );
  }
  return { block, key, tool, args: checked.args };
}
