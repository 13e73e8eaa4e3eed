/** Endpoints at the other end of a wire: a network namespace with very many addresses and one HTTP server at all of them. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

const PORT = 8080;
const NET = '10.77.0.0/16';
/** Addresses are written from their last byte on. */
const FAR_IN_TIME_WAIT = /^ *\d+: [0-9A-F]{8}:[0-9A-F]{4} [0-9A-F]{4}4D0A:[0-9A-F]{4} 06 /;
const SERVER = `require('http').createServer((q, s) => s.end('ok')).listen(${PORT}, '0.0.0.0', 4096, () => console.log('up'))`;

export class FarSide {
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess) {
    this.#process = process;
  }

  /** To be called in a network namespace of one's own: its end of the wire stays there. */
  static async start(): Promise<FarSide> {
    const child = spawn('unshare', ['--net', process.execPath, '-e', SERVER], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout!, 'data');
    const far = new FarSide(child);
    run('ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far', 'netns', String(child.pid));
    run('ip', 'addr', 'add', '10.76.0.1/24', 'dev', 'near');
    run('ip', 'link', 'set', 'near', 'up');
    for (const words of ['addr add 10.76.0.2/24 dev far', 'link set far up', 'link set lo up'])
      far.#there('ip', ...words.split(' '));
    far.mend();
    run('ip', 'route', 'add', NET, 'via', '10.76.0.2');
    return far;
  }

  /** `ADDRESS:PORT` of so many endpoints in one network of 256. */
  static endpoints(network: number, count: number): string[] {
    return Array.from({ length: count }, (_, i) => `10.77.${network}.${i + 1}:${PORT}`);
  }

  /** From now on what comes is dropped without a word. */
  cut(): void {
    this.#there('ip', 'route', 'del', 'local', NET, 'dev', 'lo');
  }

  mend(): void {
    this.#there('ip', 'route', 'add', 'local', NET, 'dev', 'lo');
  }

  /** This host has no route any more. */
  unroute(): void {
    run('ip', 'route', 'replace', 'unreachable', NET);
  }

  reroute(): void {
    run('ip', 'route', 'replace', NET, 'via', '10.76.0.2');
  }

  /** Loses this share of the packets, each way. */
  lose(share: number): void {
    for (const chain of ['INPUT', 'OUTPUT'])
      this.#there(
        'iptables',
        ...`-A ${chain} -p tcp -m statistic --mode random --probability ${share} -j DROP`.split(' '),
      );
  }

  loseNothing(): void {
    this.#there('iptables', '-F');
  }

  /** Connections in TIME_WAIT with the other end, at either. */
  timeWait(): number {
    const here = readFileSync('/proc/net/tcp', 'utf8').split('\n');
    const there = readFileSync(`/proc/${this.#process.pid}/net/sockstat`, 'utf8');
    return here.filter((line) => FAR_IN_TIME_WAIT.test(line)).length + Number(/^TCP:.* tw (\d+)/m.exec(there)?.[1]);
  }

  async stop(): Promise<void> {
    this.#process.kill('SIGKILL');
    await once(this.#process, 'exit');
  }

  #there(...words: string[]): void {
    run('nsenter', '--net', '--target', String(this.#process.pid), ...words);
  }
}

/** Has connections to the other end tracked, and none of this end's own. Returns whether that can be. */
export function trackConnections(): boolean {
  const rules = ['-t raw -A OUTPUT -o lo -j CT --notrack', '-A OUTPUT -m conntrack --ctstate INVALID -j DROP'];
  const done = rules.every((words) => spawnSync('iptables', words.split(' ')).status === 0);
  return done && trackedConnections() !== undefined;
}

/** Entries that this namespace has in the table, and how many the table takes; undefined where it is not to be seen. */
export function trackedConnections(): { count: number; most: number } | undefined {
  try {
    const [count, most] = ['count', 'max'].map((name) =>
      Number(readFileSync(`/proc/sys/net/netfilter/nf_conntrack_${name}`, 'utf8')),
    );
    return { count: count!, most: most! };
  } catch {
    return undefined;
  }
}

export function run(command: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${[command, ...args].join(' ')}: ${stderr || error}`);
}
