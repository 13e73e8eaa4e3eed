/** A real name server with one zone that is rewritten and loaded anew, on a port of its own: Knot DNS, NSD or BIND. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from '../ports.js';
import { askUdp, question } from '../server-fixture.js';
import { Daemon } from './daemon.js';
import { COMMANDS, CONFIGS, type DnsProgram, type ZonePlace } from './name-server-programs.js';

export const DNS_ZONE = 'corp.test';

export interface DnsServerOptions extends Pick<ZonePlace, 'notify' | 'key'> {
  /** Knot DNS by default. */
  readonly program?: DnsProgram;
}

export class DnsServer {
  readonly port: number;
  readonly #folder: string;
  readonly #program: DnsProgram;
  readonly #daemon: Daemon;
  /** Endpoints by service. */
  readonly services = new Map<string, readonly string[]>();
  serial = 1;

  private constructor(folder: string, port: number, program: DnsProgram) {
    this.#folder = folder;
    this.#program = program;
    this.port = port;
    this.#daemon = new Daemon({
      folder,
      command: () => COMMANDS[program](this.#config),
      isReady: async () => (await askUdp({ address: '127.0.0.1', port }, question(DNS_ZONE, 'SOA'), 200))?.rcode === 0,
      ...(program === 'knotd' ? {} : { signal: 'SIGTERM' }),
    });
  }

  static async start(folder: string, options: DnsServerOptions = {}): Promise<DnsServer> {
    const [port] = await freePorts(1);
    const server = new DnsServer(folder, port!, options.program ?? 'knotd');
    server.#write();
    server.configure(options);
    await server.run();
    return server;
  }

  /** Only while it is stopped. */
  configure(options: Omit<DnsServerOptions, 'program'>): void {
    const place = { folder: this.#folder, port: this.port, zone: DNS_ZONE };
    writeFileSync(this.#config, CONFIGS[this.#program]({ ...options, ...place }));
  }

  run(): Promise<void> {
    return this.#daemon.run();
  }

  /** After a stop, with the zone and the serial as they are here now. */
  async restart(): Promise<void> {
    this.serial++;
    this.#write();
    await this.run();
  }

  stop(): Promise<void> {
    return this.#daemon.stop();
  }

  async put(service: string, addresses: readonly string[]): Promise<void> {
    this.services.set(service, addresses);
    this.#reload();
  }

  async remove(service: string): Promise<void> {
    this.services.delete(service);
    this.#reload();
  }

  get #config(): string {
    return join(this.#folder, 'conf');
  }

  #reload(): void {
    this.serial++;
    this.#write();
    if (this.#program !== 'knotd') {
      this.#daemon.tell('SIGHUP');
      return;
    }
    const done = spawnSync('knotc', ['-c', this.#config, '-b', 'zone-reload', DNS_ZONE]);
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
}
