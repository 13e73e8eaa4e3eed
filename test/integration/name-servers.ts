/** Other name servers on ports of their own: whom holdfast asks, and whom it is compared with. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../blackbox/program.js';
import { askUdp, question } from '../server-fixture.js';
import { Daemon } from './daemon.js';
import { COMMANDS, CONFIGS, type DnsProgram, type ZonePlace } from './name-server-programs.js';

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

/** One that has the zone, and gives it to nobody. */
export function startServer(
  t: Test,
  program: DnsProgram,
  zone: string,
  text: string,
  more: Pick<ZonePlace, 'signed'> = {},
): Promise<number> {
  return start(t, program, zone, (folder, port) => {
    file(folder, 'zone', text);
    return COMMANDS[program](file(folder, 'conf', CONFIGS[program]({ ...more, folder, port, zone, kept: true })));
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
