/** A real Knot DNS with one zone that is rewritten and loaded anew, on a port of its own. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from './ports.js';

/** Whether it is installed. */
export function hasKnot(): boolean {
  return spawnSync('knotd', ['--version']).status === 0;
}

export const DNS_ZONE = 'corp.test';

export class DnsServer {
  readonly port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;
  /** Endpoints by service. */
  readonly services = new Map<string, readonly string[]>();
  serial = 1;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
  }

  /** @param notify port that is told of changes */
  static async start(folder: string, notify?: number): Promise<DnsServer> {
    mkdirSync(folder, { recursive: true });
    const [port] = await freePorts(1);
    const server = new DnsServer(folder, port!);
    server.#write();
    writeFileSync(join(folder, 'knot.conf'), server.#config(notify));
    await server.run();
    return server;
  }

  async run(): Promise<void> {
    const child = spawn('knotd', ['-c', join(this.#folder, 'knot.conf')], { stdio: 'ignore' });
    child.on('error', () => undefined);
    this.#process = child;
    for (let i = 0; i < 100; i++) {
      if (await this.#answers()) return;
      await sleep(100);
    }
    throw new Error('knotd did not answer');
  }

  /** After a stop, with the zone and the serial as they are here now. */
  async restart(): Promise<void> {
    this.serial++;
    this.#write();
    await this.run();
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  }

  async put(service: string, addresses: readonly string[]): Promise<void> {
    this.services.set(service, addresses);
    await this.#reload();
  }

  async remove(service: string): Promise<void> {
    this.services.delete(service);
    await this.#reload();
  }

  async #reload(): Promise<void> {
    this.serial++;
    this.#write();
    const done = spawnSync('knotc', ['-c', join(this.#folder, 'knot.conf'), '-b', 'zone-reload', DNS_ZONE]);
    if (done.status !== 0) throw new Error(`knotc: ${done.stderr}`);
  }

  #write(): void {
    const lines = [
      `$ORIGIN ${DNS_ZONE}.`,
      `@ 5 SOA ns hostmaster ${this.serial} 3600 600 86400 5`,
      '@ 5 NS ns',
      'ns 5 A 127.0.0.1',
    ];
    for (const [service, addresses] of this.services) {
      for (const [i, address] of addresses.entries()) {
        lines.push(`_${service}._tcp 5 SRV 0 1 80 ${service}-${i}`);
        lines.push(`${service}-${i} 5 ${address.includes(':') ? 'AAAA' : 'A'} ${address}`);
      }
    }
    writeFileSync(join(this.#folder, 'zone'), `${lines.join('\n')}\n`);
  }

  #config(notify: number | undefined): string {
    return `
server:
  rundir: "${this.#folder}"
  listen: 127.0.0.1@${this.port}
database:
  storage: "${this.#folder}"
${notify === undefined ? '' : `remote:\n  - id: observer\n    address: 127.0.0.1@${notify}\n`}acl:
  - id: everybody
    address: 127.0.0.1
    action: transfer
zone:
  - domain: ${DNS_ZONE}
    file: "${this.#folder}/zone"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
    acl: everybody
${notify === undefined ? '' : '    notify: observer\n'}`;
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = createSocket('udp4');
      const end = (yes: boolean): void => {
        clearTimeout(timer);
        socket.close();
        resolve(yes);
      };
      const timer = setTimeout(end, 200, false);
      socket.on('error', () => undefined);
      socket.on('message', (bytes) => end((bytes[3]! & 15) === 0));
      // SOA of the zone.
      const name = Buffer.concat(
        DNS_ZONE.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
      );
      const head = Buffer.from([0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
      socket.send(Buffer.concat([head, name, Buffer.from([0, 0, 6, 0, 1])]), this.port, '127.0.0.1');
    });
  }
}
