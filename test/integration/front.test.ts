/** holdfast behind Unbound and dnsmasq. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { freePort } from '../blackbox/program.js';
import { runServer, shipped, standsBehind } from './front.js';

t.jobs = 2;
t.setTimeout(110_000);

interface Configured {
  readonly name: string;
  /** Writes its configuration and returns its arguments. */
  configure(folder: string, dropIn: string, port: number): string[];
}

const FRONTS: readonly Configured[] = [
  {
    name: 'unbound',
    configure: (folder, dropIn, port) => {
      const file = join(folder, 'unbound.conf');
      writeFileSync(
        file,
        `server:
    interface: 127.0.0.1@${port}
    username: ""
    chroot: ""
    directory: "${folder}"
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    module-config: "validator iterator"
    # As hosts have it that do not want to be tricked into their own network.
    private-address: 127.0.0.0/8
    private-address: 10.0.0.0/8
remote-control:
    control-enable: no
${dropIn}`,
      );
      return ['-d', '-c', file];
    },
  },
  {
    name: 'dnsmasq',
    configure: (folder, dropIn, port) => {
      const file = join(folder, 'dnsmasq.conf');
      writeFileSync(
        file,
        `port=${port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\nno-daemon\nstop-dns-rebind\nuser=\n${dropIn}`,
      );
      return ['--keep-in-foreground', `--conf-file=${file}`, '--pid-file'];
    },
  },
];

for (const { name, configure } of FRONTS) {
  const missing = spawnSync(name, ['--version']).error ? `no ${name} here` : false;
  if (missing) console.error(`skipped: holdfast behind ${name} (${missing})`);
  t.test(`behind ${name}`, { skip: missing }, (t) =>
    standsBehind(t, {
      name,
      start: async (t, folder, holdfast) => {
        const port = await freePort();
        runServer(t, name, configure(folder, shipped(`${name}/holdfast.conf`, holdfast), port));
        return { address: '127.0.0.1', port };
      },
    }),
  );
}
