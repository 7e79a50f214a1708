// A puppet for tests, loaded by the child process of the WeChat channel like any other: the unmodified mock puppet, told over a
// socket what happens on the platform (test/fakes/wechat-platform.ts), and telling what was sent.
import { writeSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { PuppetMock } from 'wechaty-puppet-mock';
import { types, type payloads } from 'wechaty-puppet';

/** What the platform lets happen. */
export type Happening =
  | {
      do: 'world';
      contacts: { id: string; name: string; alias?: string; type?: types.Contact }[];
      rooms: { id: string; topic: string; members: string[] }[];
    }
  | { do: 'scan'; qr: string; status: types.ScanStatus }
  | { do: 'login'; id: string }
  | { do: 'logout'; reason: string }
  | { do: 'heartbeat' }
  /** The puppet keeps something of its login. */
  | { do: 'remember' }
  | { do: 'message'; payload: payloads.Message; file?: { name: string; base64: string } }
  /** What was told as sent has been noted. */
  | { do: 'noted' }
  /** What puppets do to their process. */
  | { do: 'throw' | 'reject' | 'emit' | 'exit' | 'spawn' | 'garble' }
  /** What the next attempts to send meet. */
  | { do: 'sending'; how: 'fine' | 'fail' | 'hang' };

export type Told =
  | { tell: 'up'; pid: number; secret: string; env: string[]; sends: string }
  | { tell: 'sent'; to: string; text?: string; mentions?: string[]; file?: { name: string; base64: string } }
  | { tell: 'sending' }
  | { tell: 'remembered' }
  | { tell: 'spawned'; pid: number };

export interface FakePuppetOptions {
  port: number;
  secret?: string;
}

export default class WechatTestPuppet extends PuppetMock {
  readonly #port: number;
  readonly #secret: string;
  #socket: Socket | undefined;
  readonly #noted: (() => void)[] = [];
  #sending: 'fine' | 'fail' | 'hang' = 'fine';

  constructor(options: FakePuppetOptions) {
    super();
    this.#port = options.port;
    this.#secret = options.secret ?? '';
    // A puppet that prints what it should keep to itself.
    process.stdout.write(`starting with ${JSON.stringify(options)}\n`);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    const socket = connect(this.#port, '127.0.0.1');
    this.#socket = socket;
    socket.on('error', () => undefined);
    const lines = createInterface({ input: socket });
    lines.on('line', (line) => this.#happen(JSON.parse(line) as Happening));
    lines.on('error', () => undefined);
    this.#tell({
      tell: 'up',
      pid: process.pid,
      secret: this.#secret,
      env: Object.keys(process.env),
      sends: typeof process.send,
    });
  }

  override async messageSendText(chat: string, text: string, mentions: string[] = []): Promise<void> {
    await this.#send(() => super.messageSendText(chat, text), { to: chat, text, mentions });
  }

  override async messageSendFile(
    chat: string,
    file: Parameters<PuppetMock['messageSendFile']>[1],
  ): Promise<void> {
    const { name } = file;
    const base64 = await file.toBase64();
    await this.#send(() => super.messageSendFile(chat, file), { to: chat, file: { name, base64 } });
  }

  async #send(send: () => Promise<void>, what: Omit<Extract<Told, { tell: 'sent' }>, 'tell'>): Promise<void> {
    this.#tell({ tell: 'sending' });
    if (this.#sending === 'hang') await new Promise(() => undefined);
    if (this.#sending === 'fail') throw new Error('the platform says no');
    const before = this.mocker.cacheMessagePayload.size;
    await send();
    // What the mock keeps is what has arrived.
    const arrived = [...this.mocker.cacheMessagePayload.values()].slice(before);
    if (arrived.length !== 1) throw new Error('the mock has not taken the message');
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#noted.push(resolve);
    const text = what.text === undefined ? {} : { text: arrived[0]?.text ?? '' };
    this.#tell({ tell: 'sent', ...what, ...text });
    await promise;
  }

  async #remember(): Promise<void> {
    await this.memory.set('session', 'a login');
    await this.memory.save();
    this.#tell({ tell: 'remembered' });
  }

  #tell(told: Told): void {
    this.#socket?.write(`${JSON.stringify(told)}\n`);
  }

  #happen(happening: Happening): void {
    const { mocker } = this;
    switch (happening.do) {
      case 'world':
        for (const { id, name, alias, type = types.Contact.Individual } of happening.contacts)
          mocker.createContact({ id, name, friend: true, type, ...(alias === undefined ? {} : { alias }) });
        for (const { id, topic, members } of happening.rooms)
          mocker.createRoom({ id, topic, memberIdList: members });
        return;
      case 'scan':
        mocker.scan(happening.qr, happening.status);
        return;
      case 'login':
        mocker.login(mocker.ContactMock.load(happening.id));
        return;
      case 'logout':
        void this.logout(happening.reason);
        return;
      case 'remember':
        void this.#remember();
        return;
      case 'heartbeat':
        this.emit('heartbeat', { data: 'still here' });
        return;
      case 'message': {
        const { payload, file } = happening;
        // Said again, it is the same message once more.
        if (!mocker.cacheMessagePayload.has(payload.id)) {
          if (file)
            mocker.cacheFileBoxPayload.set(payload.id, {
              type: 1,
              name: file.name,
              base64: file.base64,
              metadata: {},
            });
          mocker.MessageMock.create(payload);
        }
        this.emit('message', { messageId: payload.id });
        return;
      }
      case 'noted':
        this.#noted.shift()?.();
        return;
      case 'sending':
        this.#sending = happening.how;
        return;
      default:
        this.#misbehave(happening.do);
    }
  }

  #misbehave(how: 'throw' | 'reject' | 'emit' | 'exit' | 'spawn' | 'garble'): void {
    switch (how) {
      case 'throw':
        throw new Error('thrown in a handler');
      case 'reject':
        void Promise.reject(new Error(`rejected, with ${this.#secret}`));
        return;
      case 'emit':
        this.emit('error', { gerror: '{"message":"an error event"}', data: 'an error event' });
        return;
      case 'exit':
        return process.exit(3);
      case 'garble':
        // The line to the server, which is not its own.
        writeSync(3, 'garbage\n{"cmd":"NODE_HANDLE_ACK"}\n');
        return;
      case 'spawn':
        void import('node:child_process').then(({ spawn }) => {
          const helper = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' });
          this.#tell({ tell: 'spawned', pid: helper.pid ?? 0 });
        });
    }
  }
}
