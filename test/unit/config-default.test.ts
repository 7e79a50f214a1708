// config/default.yaml, config/schema.ts and config/schema.json say the same: every key, every default, one comment each.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { editorSchema, readReference } from '../../config/json-schema.ts';
import { jsonSchema, loadConfig } from '../../config/load.ts';
import { configSchema, modelSchema } from '../../config/schema.ts';

const FOLDER = join(import.meta.dirname, '..', '..', 'config');
const written: Record<string, unknown> = parse(readFileSync(join(FOLDER, 'default.yaml'), 'utf8'));
const loaded = loadConfig({ env: {}, cwd: '/' }).config;
const defaults = configSchema.parse({});

interface Node {
  default?: unknown;
  properties?: Record<string, Node>;
}

/** Dotted names of the settings in a part of the JSON Schema. Of what is unset by default there is nothing to write. */
function settings(node: Node, path: string): string[] {
  return Object.entries(node.properties ?? {}).flatMap(([key, child]) => {
    const inner = settings(child, `${path}${key}.`);
    const unset = Object.values(child.properties ?? {}).every((setting) => setting.default === undefined);
    return unset ? [`${path}${key}`] : [`${path}${key}`].concat(inner);
  });
}

const schema = JSON.parse(JSON.stringify(jsonSchema()));
const { comments, tree } = readReference();
const reference = z.object({ channels: z.record(z.string(), z.record(z.string(), z.unknown())) }).parse(tree);

describe('default.yaml', () => {
  it('has every setting, with a comment', () => {
    for (const key of settings(schema, '')) expect(comments.get(key), key).toBeTruthy();
  });

  it('has every setting of a model, with a comment', () => {
    for (const key of settings(schema.properties.models.additionalProperties, 'models.openai.')) {
      expect(comments.get(key), key).toBeTruthy();
    }
  });

  it('has every setting of every channel type, with a comment; an example (commented out) where it needs keys', () => {
    const accounts = Object.entries(reference.channels);
    for (const option of schema.properties.channels.additionalProperties.oneOf) {
      const type = option.properties.type.const;
      const [account, example] = accounts.find(([, channel]) => channel['type'] === type) ?? [];
      expect(
        account,
        `default.yaml needs an account of type ${type}, or an example ("  # name:")`,
      ).toBeTruthy();
      for (const key of settings(option, `channels.${account}.`)) expect(comments.get(key), key).toBeTruthy();
      for (const [key, node] of Object.entries<Node>(option.properties)) {
        const value = example?.[key];
        if (node.default === undefined || String(value).startsWith('${') || node.properties) continue;
        expect(value, `channels.${account}.${key}`).toEqual(node.default);
      }
    }
  });

  it('has no comment twice, and none over 120 characters', () => {
    for (const [key, comment] of comments) expect((comment ?? '').length, key).toBeLessThanOrEqual(120);
  });

  it('says the same as the schema where nothing is set', () => {
    const { models: _models, channels: _channels, ...rest } = loaded;
    expect(rest).toEqual({ ...defaults, models: undefined, channels: undefined });
  });

  it("says the same as the schema for a model, apart from the entry's own name, endpoint and window", () => {
    const { provider, model, ...rest } = loaded.models['openai'] ?? {};
    expect(provider).toBe('openai');
    expect(model).toBeTruthy();
    expect(rest).toEqual({
      ...modelSchema.parse({ provider: 'openai' }),
      provider: undefined,
      model: undefined,
    });
  });

  it('says the same as the schema for each channel', () => {
    for (const [account, channel] of Object.entries(loaded.channels)) {
      const { channels } = configSchema.parse({ channels: { [account]: { type: channel.type } } });
      expect(channel, account).toEqual(channels[account]);
    }
  });

  it('tells editors where its schema is', () => {
    const [first] = readFileSync(join(FOLDER, 'default.yaml'), 'utf8').split('\n');
    expect(first).toBe('# yaml-language-server: $schema=./schema.json');
    expect(written).toHaveProperty('server');
  });
});

describe('schema.json', () => {
  it('is what `npm run schema` writes', () => {
    expect(readFileSync(join(FOLDER, 'schema.json'), 'utf8'), 'run `npm run schema`').toBe(editorSchema());
  });

  it('explains and completes', () => {
    const { properties } = JSON.parse(editorSchema());
    expect(properties.agent.properties.max_steps).toMatchObject({
      description: expect.stringContaining('model calls'),
      default: 100,
      anyOf: [{ type: 'integer' }, { type: 'string', pattern: String.raw`\$\{` }],
    });
    expect(properties.models.additionalProperties.properties.provider.enum).toContain('demo');
    expect(properties.models.additionalProperties.properties.api_key.description).toContain('one key');
  });
});
