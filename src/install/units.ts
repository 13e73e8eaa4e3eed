/** Units of systemd: those of the package where it is installed, else copies that start this very program. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import type { Change, FileWanted } from './files.js';

export interface Program {
  /** How it is started, such as `/usr/bin/node`, `/opt/holdfast/bin/holdfast.js`. */
  readonly command: readonly string[];
  /** Folder with the units of this version. */
  readonly units: string;
  /** The configuration, when it is not the default one. */
  readonly config?: string;
}

export const SERVICES = ['holdfast.service', 'holdfast-prober.service'] as const;
export const UNITS = ['holdfast.socket', ...SERVICES] as const;
/** There to be enabled by who registers services of the host. */
export const REGISTRAR = 'holdfast-register.service';
const OWN = '/etc/systemd/system';
const PACKAGED = ['/usr/lib/systemd/system', '/lib/systemd/system'];

export function unitFiles(root: string, program: Program, listen: readonly ListenAddress[]): Change[] {
  const changes: Change[] = [];
  const [file, ...args] = program.command;
  const command = [quoted(file!), ...args.map((word) => quoted(word).replaceAll('$', '$$$$'))].join(' ');
  for (const name of [...UNITS, REGISTRAR]) {
    if (PACKAGED.some((folder) => existsSync(join(root, folder, name)))) continue;
    const content = readFileSync(join(program.units, name), 'utf8').replace('/usr/bin/holdfast', () => command);
    changes.push({ path: `${OWN}/${name}`, wanted: unit(content), why: 'a unit that starts this program' });
  }
  if (program.config !== undefined)
    for (const service of [...SERVICES, REGISTRAR])
      changes.push({
        path: `${OWN}/${service}.d/config.conf`,
        wanted: unit(`[Service]\nEnvironment=${quoted(`HOLDFAST_CONFIG=${program.config}`)}\n`),
        why: 'its configuration',
      });
  const addresses = listen.map(showListen);
  const both = listen.some(({ address }) => address === '0.0.0.0') ? ['BindIPv6Only=ipv6-only'] : [];
  // An empty one of either kind takes back what the unit says, of both kinds (systemd.socket(5)).
  const sockets = [
    'ListenStream=',
    ...['ListenDatagram', 'ListenStream'].flatMap((kind) => addresses.map((address) => `${kind}=${address}`)),
  ];
  changes.push({
    path: `${OWN}/holdfast.socket.d/listen.conf`,
    wanted: unit(
      `# The addresses of \`listen\`: run \`holdfast install\` again when they change.\n[Socket]\n${[...both, ...sockets].join('\n')}\n`,
    ),
    why: 'the addresses that stay open while the resolver restarts',
  });
  return changes;
}

function unit(content: string): FileWanted {
  return { kind: 'file', bytes: Buffer.from(content), mode: 0o644 };
}

/** A word of a unit: quotes where it has what ends a word, and no specifiers (systemd.syntax(7), systemd.unit(5)). */
function quoted(word: string): string {
  const whole = word.replaceAll('%', '%%');
  return /[\s"'\\;]/.test(word) ? `"${whole.replaceAll(/["\\]/g, '\\$&')}"` : whole;
}
