/** A real name server with one zone that is rewritten and loaded anew, on a port of its own: Knot DNS, NSD or BIND. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askUdp, question } from '../server-fixture.js';
import { Daemon } from './daemon.js';
import { missing } from './name-servers.js';
import { freePorts } from './ports.js';

export type DnsProgram = 'knotd' | 'nsd' | 'named';

/** What is not installed for it, if anything. */
export function missingFor(program: DnsProgram): string | false {
  return program === 'knotd' ? missing('knotd', 'knotc') : missing(program);
}

export const DNS_ZONE = 'corp.test';

export interface SharedKey {
  readonly name: string;
  readonly algorithm: string;
  /** Base64. */
  readonly secret: string;
}

export interface DnsServerOptions {
  /** Knot DNS by default. */
  readonly program?: DnsProgram;
  /** Port that is told of changes. */
  readonly notify?: number;
  /** Whoever takes the zone has to sign with it, and it signs what it tells. */
  readonly key?: SharedKey;
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
    writeFileSync(this.#config, CONFIGS[this.#program]({ ...options, folder: this.#folder, port: this.port }));
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

const COMMANDS: Readonly<Record<DnsProgram, (config: string) => readonly [string, ...string[]]>> = {
  knotd: (config) => ['knotd', '-c', config],
  nsd: (config) => ['nsd', '-d', '-c', config],
  named: (config) => ['named', '-g', '-n', '1', '-c', config],
};

type Place = Omit<DnsServerOptions, 'program'> & { readonly folder: string; readonly port: number };

const CONFIGS: Readonly<Record<DnsProgram, (place: Place) => string>> = {
  knotd: ({ folder, port, notify, key }) => `
server:
  rundir: "${folder}"
  listen: 127.0.0.1@${port}
database:
  storage: "${folder}"
${key === undefined ? '' : `key:\n  - id: ${key.name}\n    algorithm: ${key.algorithm}\n    secret: ${key.secret}\n`}
${notify === undefined ? '' : `remote:\n  - id: observer\n    address: 127.0.0.1@${notify}\n${key === undefined ? '' : `    key: ${key.name}\n`}`}
acl:
  - id: everybody
    address: 127.0.0.1
    action: transfer
${key === undefined ? '' : `    key: ${key.name}\n`}
zone:
  - domain: ${DNS_ZONE}
    file: "${folder}/zone"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
    acl: everybody
${notify === undefined ? '' : '    notify: observer\n'}`,

  nsd: ({ folder, port, notify, key }) => `
server:
  ip-address: 127.0.0.1@${port}
  server-count: 1
  username: ""
  chroot: ""
  zonesdir: "${folder}"
  database: ""
  pidfile: ""
  xfrdfile: "${folder}/xfrd"
  xfrdir: "${folder}"
  zonelistfile: "${folder}/list"
  zonefiles-check: yes
  rrl-ratelimit: 0
remote-control:
  control-enable: no
${key === undefined ? '' : `key:\n  name: "${key.name}"\n  algorithm: ${key.algorithm}\n  secret: "${key.secret}"\n`}
zone:
  name: "${DNS_ZONE}"
  zonefile: "${folder}/zone"
  provide-xfr: 127.0.0.1 ${key?.name ?? 'NOKEY'}
${notify === undefined ? '' : `  notify: 127.0.0.1@${notify} ${key?.name ?? 'NOKEY'}\n  notify-retry: 5\n`}`,

  named: ({ folder, port, notify, key }) => `
options {
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  directory "${folder}";
  pid-file none; session-keyfile none; lock-file none; managed-keys-directory "${folder}";
  recursion no; dnssec-validation no; version none; empty-zones-enable no;
  notify explicit; notify-delay 0; notify-rate 100; startup-notify-rate 100;
};
controls { };
${key === undefined ? '' : `key "${key.name}" { algorithm ${key.algorithm}; secret "${key.secret}"; };`}
zone "${DNS_ZONE}" {
  type primary;
  file "${folder}/zone";
  allow-transfer { ${key === undefined ? '127.0.0.1' : `key "${key.name}"`}; };
${notify === undefined ? '' : `  also-notify { 127.0.0.1 port ${notify}${key === undefined ? '' : ` key "${key.name}"`}; };\n`}};
`,
};
