/** Knot DNS, NSD and BIND with one zone of a file: how each is called, and what it reads. */
import { spawnSync } from 'node:child_process';

export type DnsProgram = 'knotd' | 'nsd' | 'named';

/** Which of the commands are not installed, if any. */
export const missing = (...commands: readonly string[]): string | false => {
  const none = commands.filter((command) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0);
  return none.length === 0 ? false : `no ${none.join(', no ')} here`;
};

/** The same for all that it takes to run and tell one. */
export function missingFor(program: DnsProgram): string | false {
  return program === 'knotd' ? missing('knotd', 'knotc') : missing(program);
}

export interface SharedKey {
  readonly name: string;
  readonly algorithm: string;
  /** Base64. */
  readonly secret: string;
}

export interface ZonePlace {
  /** Of its own, with the zone in the file `zone`. */
  readonly folder: string;
  readonly port: number;
  readonly zone: string;
  /** Port that is told of changes. */
  readonly notify?: number;
  /** Whoever takes the zone has to sign with it, and it signs what it tells. */
  readonly key?: SharedKey;
  /** Nobody may take the zone. */
  readonly kept?: boolean;
  /** Knot DNS signs the zone itself. */
  readonly signed?: boolean;
}

export const COMMANDS: Readonly<Record<DnsProgram, (config: string) => readonly [string, ...string[]]>> = {
  knotd: (config) => ['knotd', '-c', config],
  nsd: (config) => ['nsd', '-d', '-c', config],
  named: (config) => ['named', '-g', '-n', '1', '-c', config],
};

export const CONFIGS: Readonly<Record<DnsProgram, (place: ZonePlace) => string>> = {
  knotd: ({ folder, port, zone, notify, key, kept, signed }) => `
server:
  rundir: "${folder}"
  listen: 127.0.0.1@${port}
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
database:
  storage: "${folder}"
${key === undefined ? '' : `key:\n  - id: ${key.name}\n    algorithm: ${key.algorithm}\n    secret: ${key.secret}\n`}
${notify === undefined ? '' : `remote:\n  - id: observer\n    address: 127.0.0.1@${notify}\n${key === undefined ? '' : `    key: ${key.name}\n`}`}
acl:
  - id: everybody
    address: 127.0.0.1
    action: transfer
${key === undefined ? '' : `    key: ${key.name}\n`}
policy:
  - id: plain
    algorithm: ecdsap256sha256
    single-type-signing: on
zone:
  - domain: ${zone}
    file: "${folder}/zone"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
${kept ? '' : '    acl: everybody\n'}
${signed ? '    dnssec-signing: on\n    dnssec-policy: plain\n' : ''}
${notify === undefined ? '' : '    notify: observer\n'}`,

  nsd: ({ folder, port, zone, notify, key, kept }) => `
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
  name: "${zone}"
  zonefile: "${folder}/zone"
${kept ? '' : `  provide-xfr: 127.0.0.1 ${key?.name ?? 'NOKEY'}\n`}
${notify === undefined ? '' : `  notify: 127.0.0.1@${notify} ${key?.name ?? 'NOKEY'}\n  notify-retry: 5\n`}`,

  named: ({ folder, port, zone, notify, key, kept }) => `
options {
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  directory "${folder}";
  pid-file none; session-keyfile none; lock-file none; managed-keys-directory "${folder}";
  recursion no; dnssec-validation no; version none; empty-zones-enable no; max-udp-size 1232;
  notify explicit; notify-delay 0; notify-rate 100; startup-notify-rate 100;
};
controls { };
${key === undefined ? '' : `key "${key.name}" { algorithm ${key.algorithm}; secret "${key.secret}"; };`}
zone "${zone}" {
  type primary;
  file "${folder}/zone";
  allow-transfer { ${kept ? 'none' : key === undefined ? '127.0.0.1' : `key "${key.name}"`}; };
${notify === undefined ? '' : `  also-notify { 127.0.0.1 port ${notify}${key === undefined ? '' : ` key "${key.name}"`}; };\n`}};
`,
};
