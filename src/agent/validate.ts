// A call's arguments against the tool's JSON Schema. Each schema is compiled once per process.
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Tool } from '../ports/tool.ts';
import { isObject } from './arguments.ts';

/**
 * `args` is a copy where something had to be converted. `unchecked`: the schema itself cannot be used, and why. `message`
 * is for the model.
 */
export type Checked =
  | { ok: true; args: Record<string, unknown>; unchecked?: string }
  | { ok: false; message: string };

interface Validators {
  strict: ValidateFunction;
  /** Converts "5" to 5 and the like, in place. */
  lenient: ValidateFunction;
  required: ReadonlySet<string>;
  /** Undefined: any key is allowed. */
  keys: ReadonlySet<string> | undefined;
}

// Servers outside (MCP) bring schemas of every draft and with formats of their own: what isn't understood is not checked.
const common = { strict: false, validateSchema: false, validateFormats: false, allErrors: true } as const;
const strict = new Ajv2020(common);
const lenient = new Ajv2020({ ...common, coerceTypes: true });

const compiled = new WeakMap<object, Validators | { unusable: string }>();

/** `repaired`: keys that the schema doesn't know are then a sign of a wrong guess. */
export function checkArguments(tool: Tool, args: Record<string, unknown>, repaired: boolean): Checked {
  const validators = validatorsOf(tool);
  if ('unusable' in validators) return { ok: true, args, unchecked: validators.unusable };
  if (repaired && validators.keys) {
    const unknown = Object.keys(args).filter((key) => !validators.keys?.has(key));
    if (unknown.length > 0) {
      return {
        ok: false,
        message: `The arguments were not valid JSON (near ${unknown.join(', ')}). Quote and escape them.`,
      };
    }
  }
  if (validators.strict(args)) return { ok: true, args };
  const errors = validators.strict.errors ?? [];
  // Many models send null for what they leave out, and numbers as text.
  const copy = Object.fromEntries(
    Object.entries(structuredClone(args)).filter(
      ([key, value]) => value !== null || validators.required.has(key),
    ),
  );
  if (validators.lenient(copy)) return { ok: true, args: copy };
  return { ok: false, message: describe(errors) };
}

function validatorsOf(tool: Tool): Validators | { unusable: string } {
  const known = compiled.get(tool.parameters);
  if (known) return known;
  const made = compile(tool);
  compiled.set(tool.parameters, made);
  return made;
}

function compile(tool: Tool): Validators | { unusable: string } {
  const { $schema: _draft, $id: _id, ...schema } = tool.parameters;
  try {
    const { properties, required, additionalProperties } = schema as {
      properties?: unknown;
      required?: unknown;
      additionalProperties?: unknown;
    };
    const open = additionalProperties !== undefined && additionalProperties !== false;
    return {
      strict: compileWith(strict, schema),
      lenient: compileWith(lenient, schema),
      required: new Set(Array.isArray(required) ? required.map(String) : []),
      keys: isObject(properties) && !open ? new Set(Object.keys(properties)) : undefined,
    };
  } catch (error) {
    return { unusable: error instanceof Error ? error.message : String(error) };
  }
}

/** Ajv keeps each schema it has seen; the WeakMap is to decide how long. */
function compileWith(ajv: Ajv2020, schema: Record<string, unknown>): ValidateFunction {
  const validate = ajv.compile(schema);
  ajv.removeSchema(schema);
  return validate;
}

const MAX_ERRORS = 5;

function describe(errors: ErrorObject[]): string {
  const lines = errors.slice(0, MAX_ERRORS).map((error) => {
    const where =
      error.instancePath === '' ? 'the arguments' : error.instancePath.slice(1).replaceAll('/', '.');
    const params = error.params as Record<string, unknown>;
    const detail = params['additionalProperty'] ?? params['allowedValues'] ?? params['allowedValue'];
    return `- ${where} ${error.message ?? 'is not valid'}${detail === undefined ? '' : `: ${JSON.stringify(detail)}`}`;
  });
  if (errors.length > MAX_ERRORS) lines.push(`- and ${errors.length - MAX_ERRORS} more`);
  return `The arguments don't fit the tool's schema:\n${lines.join('\n')}`;
}
