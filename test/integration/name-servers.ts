/** Other name servers on ports of their own: whom holdfast asks, and whom it is compared with. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../blackbox/program.js';
import { askUdp, question } from '../server-fixture.js';
import { Daemon } from './daemon.js';

export const missing = (...commands: readonly string[]): string | false => {
  const none = commands.filter((command) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0);
  return none.length === 0 ? false : `no ${none.join(', no ')} here`;
};

/** A server that is told its folder and its port. Resolves with the port once it answers for `name`. */
async function start(
  t: Test,
  title: string,
  name: string,
  command: (folder: string, port: number) => readonly [program: string, ...words: string[]],
): Promise<number> {
  // Short: the path of a socket has little room.
  const folder = mkdtempSync(join(tmpdir(), `${title}-`));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const port = await freePort();
  const daemon = new Daemon({
    folder,
    command: () => started,
    isReady: async () => (await askUdp({ address: '127.0.0.1', port }, question(name, 'SOA'), 200))?.rcode === 0,
    signal: 'SIGTERM',
  });
  const started = command(folder, port);
  t.teardown(() => daemon.stop());
  await daemon.run();
  return port;
}

function file(folder: string, name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** Knot DNS with a zone that it signs itself when `signed`. */
export function startKnot(t: Test, zone: string, text: string, { signed = false } = {}): Promise<number> {
  return start(t, 'knot', zone, (folder, port) => {
    const config = `server:
    rundir: "${folder}"
    listen: 127.0.0.1@${port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "${folder}"
policy:
  - id: plain
    algorithm: ecdsap256sha256
    single-type-signing: on
zone:
  - domain: ${zone}
    file: "${file(folder, 'zone', text)}"
    zonefile-sync: -1
    journal-content: none
${signed ? '    dnssec-signing: on\n    dnssec-policy: plain\n    zonefile-load: whole\n' : ''}`;
    return ['knotd', '-c', file(folder, 'knot.conf', config)];
  });
}

export function startNsd(t: Test, zone: string, text: string): Promise<number> {
  return start(t, 'nsd', zone, (folder, port) => {
    const config = `server:
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
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: "${zone}"
  zonefile: "${file(folder, 'zone', text)}"
`;
    return ['nsd', '-d', '-c', file(folder, 'nsd.conf', config)];
  });
}

/** Unbound that forwards everything to a port of this host; `name` is what it is known to answer by. */
export function startUnbound(t: Test, upstream: number, name: string, more = ''): Promise<number> {
  return start(t, 'unbound', name, (folder, port) => {
    const config = `server:
  interface: 127.0.0.1@${port}
  access-control: 127.0.0.0/8 allow
  num-threads: 1
  username: ""
  chroot: ""
  directory: "${folder}"
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  do-not-query-localhost: no
  minimal-responses: no
  max-udp-size: 1232
  rrset-roundrobin: no
${more}
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@${upstream}
`;
    return ['unbound', '-d', '-c', file(folder, 'unbound.conf', config)];
  });
}

/** BIND with a zone of its own. */
export function startNamed(t: Test, zone: string, text: string): Promise<number> {
  return start(t, 'named', zone, (folder, port) => {
    const config = `options {
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  directory "${folder}";
  pid-file none; session-keyfile none; lock-file none; managed-keys-directory "${folder}";
  recursion no; dnssec-validation no; notify no; allow-transfer { none; }; version none;
  empty-zones-enable no; max-udp-size 1232;
};
controls { };
zone "${zone}" { type primary; file "${file(folder, 'zone', text)}"; };
`;
    return ['named', '-g', '-n', '1', '-c', file(folder, 'named.conf', config)];
  });
}
