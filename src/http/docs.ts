// The API, described: /openapi.json is made from the routes' schemas, /docs is that as a page, without scripts and
// without anything from elsewhere.
import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';
import { ERRORS } from '../domain/errors.ts';

const DESCRIPTION = `Errors are RFC 9457 problem+json with type, title, status, detail and code.
Under /v1 they have OpenAI's shape. Keys go into "Authorization: Bearer <key>".`;

/** Before the routes, since it collects them. */
export async function registerDocs(app: FastifyInstance, publicUrl: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Lanekeeper', version: '1', description: DESCRIPTION },
      servers: [{ url: publicUrl === '' ? '/' : publicUrl }],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'An api key, or the admin token.' },
          signature: {
            type: 'apiKey',
            in: 'header',
            name: 'webhook-signature',
            description: 'Standard Webhooks 1.0, with webhook-id and webhook-timestamp.',
          },
        },
      },
    },
    transform: (route) => {
      const described = jsonSchemaTransform(route);
      const security = securityOf(route.url);
      if (security) Object.assign(described.schema ?? {}, { security });
      return described;
    },
  });

  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());

  app.get('/docs', { schema: { hide: true } }, async (_request, reply) => {
    reply.type('text/html; charset=utf-8');
    return page(app.swagger().paths ?? {});
  });
}

/** Which credentials a path takes; the chat page's depend on the configuration. */
function securityOf(url: string): Record<string, string[]>[] | undefined {
  if (url.startsWith('/webhook/')) return [{ bearer: [] }, { signature: [] }];
  if (url.startsWith('/v1/') || url.startsWith('/api/')) return [{ bearer: [] }];
  return undefined;
}

interface Operation {
  summary?: string;
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: unknown;
}

function page(paths: object): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, Operation>).map(([method, operation]) =>
      operationHtml(method, path, operation),
    ),
  );
  const errors = Object.entries(ERRORS).map(
    ([code, { status, title, retryable }]) =>
      `<tr id="${code}"><td><code>${code}</code><td>${status}<td>${escape(title)}<td>${retryable ? 'yes' : 'no'}`,
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lanekeeper API</title>
<h1>Lanekeeper API</h1>
<p>${escape(DESCRIPTION)}
<p>For machines: <a href="/openapi.json">openapi.json</a>
<h2>Routes</h2>
${operations.join('\n')}
<h2>Errors</h2>
<table>
<tr><th>code<th>status<th>meaning<th>the same request may succeed later
${errors.join('\n')}
</table>
`;
}

function operationHtml(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? []).map(
    ({ name, in: where, required }) => `${name} (${where}${required ? '' : ', optional'})`,
  );
  const body = operation.requestBody
    ? `<details><summary>Body</summary><pre>${escape(JSON.stringify(operation.requestBody, null, 2))}</pre></details>`
    : '';
  return `<h3><code>${method.toUpperCase()} ${escape(path)}</code></h3>
<p>${escape(operation.summary ?? '')}
${parameters.length > 0 ? `<p>Parameters: ${escape(parameters.join(', '))}` : ''}
${body}`;
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
