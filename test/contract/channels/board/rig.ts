// The guide's channel for the contract suite, and the board that it talks to.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { systemClock } from '../../../../src/system-clock.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig, type Said, type Sent } from '../../suites/channel.ts';
import { createBoardChannel } from './index.ts';

export async function boardRig({ accept, log }: ChannelParts): Promise<ChannelRig> {
  const sent: Sent[] = [];
  /** Polls that wait for something. */
  const polls = new Set<ServerResponse>();
  const polled = Promise.withResolvers<void>();
  /** What was handed over last, until the next poll says what became of it. */
  let handed: { id: string; settle: (acknowledged: boolean) => void } | undefined;
  /** Answers that wait for a poll, oldest first. */
  const waiting: { id: string; body: string; settle: (acknowledged: boolean) => void }[] = [];

  function serve(): void {
    const [poll] = polls;
    if (!poll || handed) return;
    const next = waiting.shift();
    if (!next) return;
    polls.delete(poll);
    handed = next;
    poll.writeHead(200, { 'content-type': 'application/json' }).end(next.body);
  }

  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://board');
    if (pathname === '/messages') {
      readText(request).then(
        (body) => {
          const { room, text, key } = JSON.parse(body) as { room: string; text: string; key: string };
          sent.push({ chat: room, text, key });
          response.writeHead(204).end();
        },
        () => response.destroy(),
      );
      return;
    }
    handed?.settle(searchParams.get('after') === handed.id);
    handed = undefined;
    polls.add(response);
    response.on('close', () => polls.delete(response));
    polled.resolve();
    serve();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };

  const hand = (id: string, body: string): Promise<boolean> =>
    new Promise((settle) => {
      waiting.push({ id, body, settle });
      serve();
    });
  const update = (id: string, { chat, sender, text, group = false, mentioned = true }: Said, self = false) =>
    JSON.stringify({
      updates: [
        {
          id,
          room: chat,
          private: !group,
          from: { id: sender, self },
          text,
          mentions_me: group && mentioned,
        },
      ],
    });

  const channel = createBoardChannel({
    account: ACCOUNT,
    settings: { url: `http://127.0.0.1:${port}`, token: 'secret' },
    accept,
    clock: systemClock,
    log,
  });
  let ended = false;
  async function end(): Promise<void> {
    if (ended) return;
    ended = true;
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }

  return {
    channel,
    ids: { ada: 'ada', bob: 'bob', direct: 'room-1', group: 'room-2' },
    async connected() {
      await polled.promise;
      // The first answer makes it connected: there is nothing yet.
      await hand('nothing', '{"updates":[]}');
    },
    async say(message) {
      return { id: message.id, acknowledged: await hand(message.id, update(message.id, message)) };
    },
    async echo(message) {
      await hand(message.id, update(message.id, message, true));
    },
    garbage: ['{', '<html>', '{"updates":7}', '{"updates":[{"id":"x","room":[]}]}'].map(
      (body) => () => hand('x', body),
    ),
    sent: () => sent,
    away: end,
    connections: () => polls.size,
    close: end,
  };
}
