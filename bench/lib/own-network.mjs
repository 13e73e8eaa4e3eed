/** A network of its own for a benchmark, with only loopback in it: its connection tracking can be counted there. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { which } from './system.mjs';

const MARK = 'HOLDFAST_BENCH_NETWORK';

/** Runs this very program again in a network namespace, when root may make one. Returns whether this is in one. */
export function enterOwnNetwork() {
  if (process.env[MARK] === '1') return true;
  if (process.getuid?.() !== 0 || which('unshare') === undefined || which('ip') === undefined) return false;
  if (spawnSync('unshare', ['-n', 'true']).status !== 0) return false;
  const { status } = spawnSync('unshare', ['-n', process.execPath, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [MARK]: '1' },
  });
  process.exit(status ?? 1);
}

export function raiseLoopback() {
  spawnSync('ip', ['link', 'set', 'lo', 'up']);
  // A rule that asks for the state of connections has them tracked.
  return iptables('-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'INVALID', '-j', 'DROP');
}

/** Loses this share of the packets from and to a port, each way. Returns whether it can. */
export function losePackets(port, share) {
  return ['--dport', '--sport'].every((side) =>
    iptables(...`-A INPUT -p tcp ${side} ${port} -m statistic --mode random --probability ${share} -j DROP`.split(' ')),
  );
}

export function keepPackets() {
  return iptables('-F', 'INPUT');
}

function iptables(...args) {
  return which('iptables') !== undefined && spawnSync('iptables', args).status === 0;
}

/** Connections that the kernel remembers here; undefined where it does not tell. */
export function tracked() {
  return readNumber('/proc/sys/net/netfilter/nf_conntrack_count', /^(\d+)/);
}

/** Connections in TIME_WAIT. */
export function timeWait() {
  return readNumber('/proc/net/sockstat', /^TCP:.* tw (\d+)/m);
}

/** What the kernel has dropped here since the start: connections that its table had no room for, and those that a queue had none for. */
export function dropped() {
  return { byTable: tableDrops(), byQueue: queueDrops() };
}

/** Of connection tracking; its columns are hexadecimal, a line a core. */
function tableDrops() {
  const [head = '', ...lines] = readText('/proc/net/stat/nf_conntrack').trim().split('\n');
  const places = head.split(/\s+/).flatMap((name, i) => (['insert_failed', 'drop'].includes(name) ? [i] : []));
  const numbers = lines.flatMap((line) => places.map((i) => Number.parseInt(line.split(/\s+/)[i], 16)));
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** Of listening sockets that are full. */
function queueDrops() {
  const [names = '', values = ''] = readText('/proc/net/netstat')
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'));
  return Number(values.split(' ')[names.split(' ').indexOf('ListenDrops')] ?? Number.NaN);
}

function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function readNumber(path, pattern) {
  try {
    return Number(pattern.exec(readFileSync(path, 'utf8'))?.[1] ?? Number.NaN);
  } catch {
    return undefined;
  }
}
