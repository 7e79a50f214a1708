// Files of a webhook account: those of answers are fetched here, those of messages may be left here first, and are then named
// by their reference. The same credentials as for messages; the reference itself is a hash that nobody guesses.
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { AppError } from '../domain/errors.ts';
import { fileParams, keepFile, nameQuery, sendFile } from './files.ts';
import type { HttpParts } from './parts.ts';
import { accountParams, guardWebhook, MESSAGES } from './webhook-access.ts';

const tags = ['webhook'];

export async function registerWebhookMedia(app: FastifyInstance, parts: HttpParts): Promise<void> {
  const { media, state } = parts.options;
  await app.register(async (scope) => {
    guardWebhook(scope, parts, 'files');
    const routes = scope.withTypeProvider<ZodTypeProvider>();

    routes.get(
      `${MESSAGES}/media/:ref`,
      { schema: { tags, summary: 'A file of an answer', params: fileParams, querystring: nameQuery } },
      (request, reply) => sendFile(reply, media, { ref: request.params.ref, name: request.query.name }),
    );

    routes.post(
      `${MESSAGES}/media`,
      {
        schema: {
          tags,
          summary: 'Leave a file, as the body, for a message whose attachments name its ref',
          params: accountParams,
          querystring: nameQuery,
        },
      },
      async (request, reply) => {
        if (state.draining()) throw new AppError('draining', 'The server is shutting down.');
        reply.code(201);
        const type = request.headers['content-type'];
        return keepFile(media, request.body, { type, name: request.query.name });
      },
    );
  });
}
