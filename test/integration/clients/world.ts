/** holdfast as this host's only nameserver, an upstream behind it, and web servers that it knows. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { TYPE } from '../../../src/dns/constants.js';
import { wireToName } from '../../../src/dns/names.js';
import { Host, type Process, until } from '../../blackbox/program.js';
import { a, FakeUpstream, say, soa } from '../../forward-fixture.js';
import { ordinary, query } from '../../protocol-fixture.js';
import { mountOver } from '../own-network.js';

/** Shorter than what a client waits for when one reply does not come (`timeout:` in resolv.conf). */
const PATIENCE_MS = 25_000;
const PORT = 53;

export interface Ran {
  readonly code: number;
  readonly lines: string[];
}

export class World {
  readonly host = new Host();
  readonly upstream = new FakeUpstream((heard) => {
    if (!heard.name.startsWith('big.')) return ordinary(heard);
    const all = Array.from({ length: 200 }, (_, i) => a(`192.0.2.${i}`));
    return heard.via === 'tcp' ? { answers: all } : { answers: all.slice(0, 5), tc: true };
  });
  readonly sites: { readonly port: number; readonly name: string }[] = [];
  program!: Process;
  readonly #servers: Server[] = [];
  readonly #children: ChildProcess[] = [];

  async start(t: Test): Promise<this> {
    const { host } = this;
    t.teardown(async () => {
      for (const child of this.#children) child.kill('SIGKILL');
      for (const server of this.#servers) server.close();
      await host.dispose();
    });
    await this.upstream.start(t);
    for (const name of ['one', 'two']) await this.#site(name);
    host.port = PORT;
    for (const file of ['resolv.conf', 'nsswitch.conf']) writeFileSync(join(host.folder, file), '');
    writeFileSync(join(host.folder, 'nsswitch.conf'), 'hosts: files dns\n');
    this.resolvConf();
    for (const file of ['resolv.conf', 'nsswitch.conf']) mountOver(join(host.folder, file), join('/etc', file));
    this.list();
    this.configure(true);
    this.program = await host.serve();
    await this.program.said('zone-synced');
    return this;
  }

  configure(forward: boolean, allow = ''): void {
    writeFileSync(
      this.host.config,
      [
        'version: 1',
        'listen: ["127.0.0.1:53"]',
        'stateDir: state',
        'runDir: run',
        'zones:',
        `  - { name: svc.test, softTtl: 1s, answerTtl: 1s, check: { type: none }, registry: { type: file, path: services.yaml }${allow} }`,
        ...(forward ? [`forward: { upstreams: ["127.0.0.1:${this.upstream.at.port}"]${allow} }`] : []),
        '',
      ].join('\n'),
    );
  }

  /** Without forwarding, and with another nameserver behind this one in resolv.conf. Returns what that is asked for. */
  async second(t: Test): Promise<string[]> {
    const asked: string[] = [];
    const socket = createSocket('udp4', (bytes, from) => {
      asked.push(wireToName(bytes, 12) ?? '?');
      const type = bytes.readUInt16BE(bytes.indexOf(0, 12) + 1);
      const said = type === TYPE.A ? { answers: [a('192.0.2.2')] } : { authorities: [soa(60, 60)] };
      socket.send(say(bytes, said), from.port, from.address);
    });
    await new Promise<void>((done) => socket.bind(PORT, '127.0.0.2', done));
    t.teardown(() => socket.close());
    const file = join(this.host.folder, 'resolv.conf');
    writeFileSync(file, `nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:30 attempts:1\n`);
    this.configure(false);
    this.program.kill('SIGHUP');
    await until('no forwarding', async () => (await this.host.ask('www.example. A +rd')).rcode === 'REFUSED');
    return asked;
  }

  /** What clients read; they wait for a lost reply longer than a test does. */
  resolvConf(options = '', search = 'gone.example svc.test'): void {
    const text = `nameserver 127.0.0.1\nsearch ${search}\noptions timeout:30 attempts:1 ${options}\n`;
    writeFileSync(join(this.host.folder, 'resolv.conf'), text);
  }

  list(): void {
    const row = (address: string, port: number, more = {}) => ({ id: `${address}:${port}`, address, port, ...more });
    const services = {
      web: { portName: 'http', endpoints: [row('10.0.0.1', 8081), row('10.0.0.2', 8082)] },
      six: { endpoints: [row('fd00::1', 80)] },
      both: { endpoints: [row('10.0.0.3', 80), row('fd00::3', 80)] },
      site: { endpoints: this.sites.map(({ port }) => row('127.0.0.1', port)) },
      crowd: { endpoints: Array.from({ length: 200 }, (_, i) => row(`10.0.2.${i}`, 9000)) },
    };
    writeFileSync(this.host.registry, JSON.stringify({ services }));
  }

  /** The registry goes; it is not heard from then on. */
  async outage(): Promise<void> {
    rmSync(this.host.registry);
    await until('staleness', async () => {
      const { ede } = await this.host.ask('web A');
      return ede.some(({ code }) => code === 3);
    });
  }

  /** One question over UDP from an address of this host; its bytes and those of the reply. */
  askFrom(address: string, name: string, type: keyof typeof TYPE): Promise<{ asked: number; reply: Buffer }> {
    const asked = query(name, type, { edns: { payload: 4_096 } });
    return new Promise((done, fail) => {
      const socket = createSocket('udp4');
      const late = setTimeout(() => fail(new Error(`no reply to ${address}`)), 5_000);
      socket.on('message', (reply) => {
        clearTimeout(late);
        socket.close();
        done({ asked: asked.length, reply });
      });
      socket.bind(0, address, () => socket.send(asked, PORT, '127.0.0.1'));
    });
  }

  /** A program that ends by itself; a late one counts as failed. */
  run(command: string, words: readonly string[], env: Readonly<Record<string, string>> = {}, timeout = PATIENCE_MS) {
    return new Promise<Ran>((done) => {
      const options = { env: { ...process.env, ...env }, timeout, cwd: this.host.folder };
      execFile(command, words, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
        const lines = `${stdout}`.split('\n').filter((line) => line !== '');
        done({ code, lines: lines.length === 0 && code !== 0 ? [`! ${stderr}`] : lines });
      });
    });
  }

  /** A program that runs until the test ends. */
  spawn(command: string, words: readonly string[]): { output: string } {
    const child = spawn(command, words, { cwd: this.host.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    const seen = { output: '' };
    child.stdout.on('data', (data) => (seen.output += data));
    child.stderr.on('data', (data) => (seen.output += data));
    this.#children.push(child);
    return seen;
  }

  async #site(name: string): Promise<void> {
    const server = createServer((_, response) => response.end(name));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    this.sites.push({ port: (server.address() as AddressInfo).port, name });
    this.#servers.push(server);
  }
}
