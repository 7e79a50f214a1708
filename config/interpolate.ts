// Start-up, step 2: `${NAME}` and `${NAME:-default}` in the strings of a parsed file are replaced from the
// environment. After parsing, so that a value can never become YAML; `$${` stands for a literal `${`.

export type Path = readonly (string | number)[];

export interface Interpolated {
  value: unknown;
  /** By joined path: texts that came from the environment, which may stand for a number or a boolean. */
  replaced: Map<string, Path>;
  problems: { path: Path; found: string; allowed: string }[];
}

const REFERENCE = /(\$?)\$\{([^}]*)\}/g;
const FORM = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([^$]*))?$/s;

export const joinPath = (path: Path): string => path.join('.');

export function interpolate(input: unknown, env: NodeJS.ProcessEnv): Interpolated {
  const replaced = new Map<string, Path>();
  const problems: Interpolated['problems'] = [];

  function text(source: string, path: Path): string {
    return source.replace(REFERENCE, (whole, dollar: string, inside: string) => {
      if (dollar) return whole.slice(1);
      const form = FORM.exec(inside);
      if (!form?.[1]) {
        problems.push({ path, found: whole, allowed: '${NAME} or ${NAME:-default}; $${ for a literal ${' });
        return whole;
      }
      replaced.set(joinPath(path), path);
      const [, name, fallback] = form;
      const given = env[name];
      if (fallback !== undefined) return given === undefined || given === '' ? fallback : given;
      if (given !== undefined) return given;
      problems.push({
        path,
        found: `${whole}, which is not set in the environment`,
        allowed: `set ${name}, or write \${${name}:-} if it may be empty`,
      });
      return '';
    });
  }

  function walk(value: unknown, path: Path): unknown {
    if (typeof value === 'string') return text(value, path);
    if (Array.isArray(value)) return value.map((item, index) => walk(item, [...path, index]));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, [...path, key])]));
  }

  return { value: walk(input, []), replaced, problems };
}
