// Loads the puppet that the setting names, at run time: a package that the operator has installed, or a module of their own.
import { existsSync, readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Puppet } from 'wechaty-puppet';

type PuppetClass = new (options: Record<string, unknown>) => InstanceType<typeof Puppet>;

/** The setting names nothing that is installed. */
const PUPPET_MISSING = 'PuppetMissing';

/** Rejects with an error of this name, or with what the module throws. */
export async function loadPuppet(name: string, options: Record<string, unknown>) {
  if (!isInstalled(name)) throw Object.assign(new Error(name), { name: PUPPET_MISSING });
  let found: unknown = await import(specifierOf(name));
  // A CommonJS module that was compiled from an ES module has its default export one or two levels down.
  for (let depth = 0; depth < 3 && !isPuppetClass(found); depth++) found = Object(found)['default'];
  if (!isPuppetClass(found)) throw new Error(`the default export of ${name} is not a puppet`);
  return new found(options);
}

const isPuppetClass = (value: unknown): value is PuppetClass =>
  typeof value === 'function' && typeof Object(value.prototype)['messageSendText'] === 'function';

const isPath = (name: string): boolean => name.startsWith('.') || isAbsolute(name);

/** Relative paths are relative to where the server was started. */
const specifierOf = (name: string): string => (isPath(name) ? pathToFileURL(resolve(name)).href : name);

/** What stands in for a package that wechaty would bring along is not that package: see `overrides` in package.json. */
export function isInstalled(name: string): boolean {
  if (isPath(name)) return existsSync(resolve(name));
  try {
    const file = findPackageJSON(name, import.meta.url);
    if (file === undefined) return false;
    const { name: found } = JSON.parse(readFileSync(file, 'utf8')) as { name?: string };
    return found === packageOf(name);
  } catch {
    return false;
  }
}

/** Without a path inside the package. */
const packageOf = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
