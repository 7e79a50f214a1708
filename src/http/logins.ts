// Logging a channel account in from the console or a script: the QR code as a picture, and the code that the phone may show.
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { qrAsSvg } from '../../channels/shared/qr.ts';
import { AppError } from '../domain/errors.ts';
import type { Channel } from '../ports/channel.ts';
import { adminRoutes } from './admin-routes.ts';
import type { HttpParts } from './parts.ts';

const tags = ['management'];
const accountParams = z.object({ account: z.string().min(1) });

/** Under the prefix /api. */
export async function registerLogins(app: FastifyInstance, { options, auth }: HttpParts): Promise<void> {
  function channelOf(account: string): Channel {
    const channel = options.channels.get(account);
    if (!channel) throw new AppError('unknown_account', `There is no channel account "${account}".`);
    return channel;
  }

  await app.register(
    async (scope) => {
      const routes = adminRoutes(scope, auth);

      routes.get(
        '/channels/:account/qr.svg',
        {
          schema: {
            tags,
            summary: 'The QR code that logs an account in, as a picture',
            params: accountParams,
          },
        },
        async (request, reply) => {
          const { account } = request.params;
          const { qr } = channelOf(account).status();
          if (qr === undefined)
            throw new AppError('not_found', `No QR code of "${account}" waits to be scanned.`);
          reply.type('image/svg+xml');
          return qrAsSvg(qr);
        },
      );

      routes.post(
        '/channels/:account/code',
        {
          schema: {
            tags,
            summary: 'The code that the phone shows while an account logs in',
            params: accountParams,
            body: z.object({ code: z.string().trim().min(1).max(64) }),
          },
        },
        async (request) => {
          const { account } = request.params;
          const channel = channelOf(account);
          if (!channel.enterCode) throw new AppError('conflict', 'No code is asked for now.');
          await channel.enterCode(request.body.code);
          return { account, entered: true };
        },
      );
    },
    { prefix: '/api' },
  );
}
