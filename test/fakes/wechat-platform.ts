// The platform behind the test puppet: people, a room, logins, and what the bot has sent. One puppet at a time is connected; a
// child process that starts anew finds the same people.
import { createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { types, type payloads } from 'wechaty-puppet';
import type { Happening, Told } from './wechat-puppet.ts';

const PUPPET = fileURLToPath(new URL('wechat-puppet.ts', import.meta.url));
export const BOT = { id: 'wxid_bot', name: 'Lane' };
export const ADA = { id: 'wxid_ada', name: 'Ada' };
export const BOB = { id: 'wxid_bob', name: 'Bob' };
export const ROOM = { id: 'tea@chatroom', topic: 'Tea', members: [BOT.id, ADA.id, BOB.id] };
export const SECRET = 'puppet-secret-token';
export const QR = 'http://weixin.qq.com/x/login-code';

export interface SaidOnWechat {
  id: string;
  from: string;
  text?: string;
  room?: string;
  mentions?: string[];
  type?: types.Message;
  file?: { name: string; bytes: Uint8Array };
  /** Milliseconds since the epoch; default now. */
  at?: number;
}

export type Sent = Omit<Extract<Told, { tell: 'sent' }>, 'tell'>;

type World = Omit<Extract<Happening, { do: 'world' }>, 'do'>;

export const WORLD: World = { contacts: [BOT, ADA, BOB], rooms: [ROOM] };

export async function startWechatPlatform(first: World = WORLD) {
  let world = first;
  let self = BOT.id;
  const sent: Sent[] = [];
  const pids: number[] = [];
  const spawned: number[] = [];
  const ups: Extract<Told, { tell: 'up' }>[] = [];
  const sockets = new Set<Socket>();
  let puppet: Socket | undefined;
  const waiting = new Set<() => void>();
  let attempts = 0;
  let remembered = 0;

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      sockets.delete(socket);
      if (puppet === socket) puppet = undefined;
      changed();
    });
    const lines = createInterface({ input: socket });
    lines.on('error', () => undefined);
    lines.on('line', (line) => {
      const told = JSON.parse(line) as Told;
      if (told.tell === 'up') {
        pids.push(told.pid);
        ups.push(told);
        puppet = socket;
        happen({ do: 'world', ...world });
      } else if (told.tell === 'sent') {
        const { tell: _tell, ...what } = told;
        sent.push(what);
        socket.write(`${JSON.stringify({ do: 'noted' } satisfies Happening)}\n`);
      } else if (told.tell === 'spawned') spawned.push(told.pid);
      else if (told.tell === 'remembered') remembered += 1;
      else attempts += 1;
      changed();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };

  function changed(): void {
    for (const look of waiting) look();
  }

  /** Resolves when it holds, looked at whenever the puppet tells something. */
  async function until(holds: () => boolean): Promise<void> {
    if (holds()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => (holds() ? resolve() : undefined);
    waiting.add(look);
    await promise.finally(() => waiting.delete(look));
  }

  function happen(happening: Happening): void {
    if (!puppet) throw new Error('no puppet is connected');
    puppet.write(`${JSON.stringify(happening)}\n`);
  }

  return {
    settings: { type: 'wechat', puppet: PUPPET, puppet_options: { port, secret: SECRET }, memory: 'none' },
    sent,
    /** Of the child processes, oldest first. */
    pids,
    spawned,
    /** What each puppet was told, and what it sees of its process. */
    ups,
    attempts: () => attempts,
    remembered: () => remembered,
    connections: () => sockets.size,
    until,
    happen,
    /** Resolves when the n-th child's puppet is there. */
    up: (n = 1) => until(() => pids.length >= n && puppet !== undefined),
    /** For the puppets to come. */
    become: (next: World) => (world = next),
    scan: (qr = QR, status = types.ScanStatus.Waiting) => happen({ do: 'scan', qr, status }),
    login(id = BOT.id) {
      self = id;
      happen({ do: 'login', id });
    },
    logout: (reason = 'kicked out') => happen({ do: 'logout', reason }),
    say({ id, from, text, room, mentions, type, file, at = Date.now() }: SaidOnWechat) {
      const payload = {
        id,
        talkerId: from,
        timestamp: at,
        type: type ?? (file ? types.Message.Attachment : types.Message.Text),
        text,
        ...(room === undefined
          ? { listenerId: from === self ? ADA.id : self }
          : { roomId: room, mentionIdList: mentions ?? [] }),
      } as payloads.Message;
      const base64 = file && { name: file.name, base64: Buffer.from(file.bytes).toString('base64') };
      happen({ do: 'message', payload, ...(base64 ? { file: base64 } : {}) });
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

export type WechatPlatform = Awaited<ReturnType<typeof startWechatPlatform>>;
