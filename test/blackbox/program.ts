/** The real program with real files and sockets, in a folder of its own. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../ports.js';
import { root } from '../root.js';
import { type Answer, decodeAnswer, encodeQuery, parseQuestion } from '../scenario-engine/client.js';

const LAUNCHER = join(root, 'bin', 'holdfast.js');
/** How long something may take that is only waited for. It is no measure of anything. */
const PATIENCE_MS = 20_000;

export { freePort };
export const ZONE = 'svc.test';

/** Looks again and again until there is something to see; what `look` throws counts as nothing yet. */
export async function until<T>(
  what: string,
  look: () => Promise<T | false> | T | false,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const end = Date.now() + patienceMs;
  let last: unknown;
  while (Date.now() < end) {
    try {
      const seen = await look();
      if (seen !== false) return seen;
    } catch (error) {
      last = error;
    }
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error(`waited in vain: ${what}${last ? ` (${last})` : ''}`);
}

/** Sockets that a process has open. Its other descriptors come and go with its threads. */
export function openSockets(pid: number | undefined): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(join(folder, fd)).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

/** Something that accepts connections until it is closed, and can be opened again at the same port. */
export class Backend {
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();
  port = 0;

  async open(): Promise<this> {
    // While it is closed no connection may go out from its port, nor to itself.
    if (this.port === 0) this.port = await freePort();
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    await new Promise<void>((done, fail) => {
      server.once('error', fail);
      server.listen(this.port, '127.0.0.1', done);
    });
    this.#server = server;
    return this;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  }
}

export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** Descriptors that are passed on. */
  readonly sockets?: readonly number[];
  /** Shell that goes before the command, which is in `$@`. */
  readonly shell?: string;
}

/** A process of the program. Its output is kept. */
export class Process {
  readonly child: ChildProcess;
  output = '';
  readonly ended: Promise<number | string>;

  constructor(args: readonly string[], cwd: string, { env = {}, sockets = [], shell }: Surroundings = {}) {
    const command = [process.execPath, LAUNCHER, ...args];
    // As a service manager does it: sockets from descriptor 3 on, for the process that has this very number.
    const [program, ...rest] =
      shell !== undefined
        ? ['sh', '-c', `${shell}\nexec "$@"`, 'sh', ...command]
        : sockets.length === 0
          ? command
          : ['sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', ...command];
    this.child = spawn(program!, rest, {
      cwd,
      env: { ...process.env, ...(sockets.length === 0 ? {} : { LISTEN_FDS: String(sockets.length) }), ...env },
      stdio: ['ignore', 'pipe', 'pipe', ...sockets],
    });
    this.child.stdout?.on('data', (data) => (this.output += data));
    this.child.stderr?.on('data', (data) => (this.output += data));
    this.ended = new Promise((done) => this.child.on('close', (code, signal) => done(code ?? signal ?? 'unknown')));
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  events(): { event: string; [field: string]: unknown }[] {
    const lines = this.output.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
    return lines.map((line) => JSON.parse(line));
  }

  async said(event: string): Promise<void> {
    await until(`${event} in the log`, () => !this.alive || this.events().some((line) => line.event === event));
    if (!this.events().some((line) => line.event === event))
      throw new Error(`it ended before ${event}:\n${this.output}`);
  }
}

/** A folder with a configuration and a registry file, and what runs on them. */
export class Host {
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-'));
  readonly config = join(this.folder, 'holdfast.yaml');
  readonly registry = join(this.folder, 'services.yaml');
  port = 0;
  #id = 0;
  readonly #processes: Process[] = [];

  /** Writes a configuration; `zone` are lines of the zone, `top` top-level ones. */
  configure(zone: readonly string[] = [], top: readonly string[] = []): void {
    writeFileSync(
      this.config,
      [
        'version: 1',
        `listen: ["127.0.0.1:${this.port}"]`,
        'stateDir: state',
        'runDir: run',
        ...top,
        'zones:',
        `  - name: ${ZONE}`,
        '    registry: { type: file, path: services.yaml }',
        '    softTtl: 2s',
        '    check: { type: tcp, interval: 250ms, timeout: 200ms }',
        ...zone.map((line) => `    ${line}`),
        '',
      ].join('\n'),
    );
  }

  /** `ports` by service. */
  list(services: Readonly<Record<string, readonly number[]>>): void {
    const lines = ['services:'];
    for (const [name, ports] of Object.entries(services)) {
      lines.push(`  ${name}:`, '    endpoints:');
      for (const port of ports) lines.push(`      - { id: ${name}-${port}, address: 127.0.0.1, port: ${port} }`);
    }
    writeFileSync(this.registry, `${lines.join('\n')}\n`);
  }

  run(...args: string[]): Process {
    return this.runIn({}, ...args);
  }

  runIn(surroundings: Surroundings, ...args: string[]): Process {
    const started = new Process(args, this.folder, surroundings);
    this.#processes.push(started);
    return started;
  }

  serve(...args: string[]): Promise<Process> {
    return this.serveIn({}, ...args);
  }

  async serveIn(surroundings: Surroundings, ...args: string[]): Promise<Process> {
    if (this.port === 0) this.port = await freePort();
    const resolver = this.runIn(surroundings, 'serve', '--config', this.config, ...args);
    await resolver.said('answering');
    return resolver;
  }

  probe(): Process {
    return this.run('probe', '--config', this.config);
  }

  probeWith(shell: string): Process {
    return this.runIn({ shell }, 'probe', '--config', this.config);
  }

  /** A command that ends by itself. */
  command(...args: string[]): { code: number | null; stdout: string; stderr: string } {
    const { status, stdout, stderr } = spawnSync(process.execPath, [LAUNCHER, ...args, '--config', this.config], {
      cwd: this.folder,
      encoding: 'utf8',
      timeout: PATIENCE_MS,
    });
    return { code: status, stdout, stderr };
  }

  /** Waits until a snapshot that holds `text` is on disk: it is written once a second at most. */
  async saved(text: string): Promise<void> {
    const folder = join(this.folder, 'state', 'snapshots');
    await until(`${text} in a snapshot`, () =>
      // What is not in its place yet does not outlive a death.
      readdirSync(folder).some((name) => {
        return !name.endsWith('.tmp') && readFileSync(join(folder, name), 'utf8').includes(text);
      }),
    );
  }

  /** What a command prints with `--json`. */
  json<T>(...args: string[]): T {
    const { code, stdout, stderr } = this.command(...args, '--json');
    if (stdout === '') throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  /** Asks as scenarios do: `orders`, `orders A +tcp`. */
  async ask(text: string): Promise<Answer> {
    const question = parseQuestion(text, ZONE);
    const query = encodeQuery((this.#id = (this.#id + 1) & 0xffff), question);
    const reply = question.tcp ? (await this.tcp([query], 1))[0] : await this.udp(query);
    if (!reply) throw new Error(`no reply to ${text}`);
    return decodeAnswer(query, question, reply);
  }

  /** The ports of a service that are answered, sorted. */
  async ports(service: string): Promise<number[]> {
    const { answers } = await this.ask(service);
    return answers.map((rr) => Number(rr.port)).sort((a, b) => a - b);
  }

  udp(query: Uint8Array): Promise<Uint8Array | undefined> {
    return new Promise((done) => {
      const socket = createSocket('udp4');
      const end = (reply?: Uint8Array) => {
        clearTimeout(timer);
        socket.close();
        done(reply);
      };
      const timer = setTimeout(end, 2_000);
      socket.on('error', () => end());
      socket.on('message', (reply) => end(reply));
      // Connected, so that it is told at once when nobody is there.
      socket.connect(this.port, '127.0.0.1', () => socket.send(query));
    });
  }

  /** Sends all messages in one segment, half-closes, and reads replies until there are `count` or the server closes. */
  tcp(messages: readonly Uint8Array[], count: number): Promise<Uint8Array[]> {
    return new Promise((done) => {
      const replies: Uint8Array[] = [];
      let buffered = Buffer.alloc(0);
      const socket = connect(this.port, '127.0.0.1');
      const end = () => {
        clearTimeout(timer);
        socket.destroy();
        done(replies);
      };
      const timer = setTimeout(end, 5_000);
      socket.on('error', end);
      socket.on('close', end);
      socket.on('data', (data) => {
        buffered = Buffer.concat([buffered, data]);
        while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE(0)) {
          const length = buffered.readUInt16BE(0);
          replies.push(buffered.subarray(2, 2 + length));
          buffered = buffered.subarray(2 + length);
        }
        if (replies.length >= count) end();
      });
      socket.end(
        Buffer.concat(
          messages.map((message) => {
            const head = Buffer.alloc(2);
            head.writeUInt16BE(message.length, 0);
            return Buffer.concat([head, message]);
          }),
        ),
      );
    });
  }

  /** Ends what still runs, and removes the folder. */
  async dispose(): Promise<void> {
    for (const one of this.#processes) {
      one.kill('SIGCONT');
      one.kill('SIGKILL');
      await one.ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
