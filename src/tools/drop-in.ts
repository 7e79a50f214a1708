// What the default export of a file in `tools.folder` has to be, and the tool that is made of it.
import { success, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';
import type { CheckArguments } from './find-tools.ts';

/** What a file exports as its default. `name` is the file's unless it says another. */
interface DropInTool extends Omit<Tool, 'name' | 'idempotent' | 'execute'> {
  name?: string;
  /** Default false: after a crash in the middle of it the model is told, instead of the tool being run again. */
  idempotent?: boolean;
  /** A text is a success; whatever it throws becomes an error result. */
  execute(
    args: Record<string, unknown>,
    context: ToolContext,
  ): Promise<ToolResult | string> | ToolResult | string;
}

/** Throws an Error that says what is wrong with the export. */
export function toTool(fileName: string, module: unknown, check: CheckArguments): Tool {
  const exported = isObject(module) ? module['default'] : undefined;
  if (!isObject(exported)) throw new Error('it has no default export that is an object');
  const { name = fileName, description, parameters, execute, stage, execution, timeoutMs } = exported;
  if (typeof name !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/u.test(name))
    throw new Error('its name must be 1 to 64 letters, digits, _ and -');
  if (typeof description !== 'string' || description === '')
    throw new Error('description must be a text that tells the model what the tool does');
  if (!isObject(parameters) || parameters['type'] !== 'object')
    throw new Error("parameters must be a JSON Schema with type: 'object'");
  if (typeof execute !== 'function') throw new Error('execute must be a function');
  if (!['pre_process', 'post_process', undefined].includes(stage as string | undefined))
    throw new Error("stage must be 'pre_process' or 'post_process'");
  if (!['sequential', 'parallel', undefined].includes(execution as string | undefined))
    throw new Error("execution must be 'sequential' or 'parallel'");
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 0))
    throw new Error('timeoutMs must be a number of milliseconds');
  const tool = exported as unknown as DropInTool;
  const made: Tool = {
    ...tool,
    name,
    idempotent: tool.idempotent === true,
    async execute(args, context) {
      const result = await tool.execute(args, context);
      return typeof result === 'string' ? success(result) : result;
    },
  };
  const checked = check(made, {});
  if (checked.ok && checked.unchecked !== undefined)
    throw new Error(`parameters are not a JSON Schema that can be used: ${checked.unchecked}`);
  return made;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;
