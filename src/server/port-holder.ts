/** Finds who holds a port, from /proc (Linux). Elsewhere, and for processes of others, nobody is found. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { ipaddr } from '../dns/ipaddr.js';

export interface PortHolder {
  readonly pid: number;
  readonly name: string;
}

const TCP_LISTEN = '0A';

/** Processes whose sockets stand in the way of binding `address:port`, at most four. Never throws. */
export async function findPortHolders(address: string, port: number, protocol: 'udp' | 'tcp'): Promise<PortHolder[]> {
  const inodes = new Set<string>();
  for (const family of [4, 6] as const) {
    const table = await readFile(`/proc/net/${protocol}${family === 6 ? '6' : ''}`, 'utf8').catch(() => '');
    for (const line of table.split('\n').slice(1)) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      if (!local || !inode || (protocol === 'tcp' && state !== TCP_LISTEN)) continue;
      const [hex, hexPort] = local.split(':');
      if (Number.parseInt(hexPort ?? '', 16) === port && clash(decodeProcAddress(hex ?? ''), address))
        inodes.add(inode);
    }
  }
  return inodes.size ? owners(inodes) : [];
}

/** An address of /proc/net/*, in words of 4 bytes in this machine's order, as canonical text. */
export function decodeProcAddress(hex: string): string {
  const bytes: number[] = [];
  for (let i = 0; i + 8 <= hex.length; i += 8) {
    const word = Buffer.from(hex.slice(i, i + 8), 'hex');
    bytes.push(...(littleEndian ? word.reverse() : word));
  }
  if (bytes.length !== 4 && bytes.length !== 16) return '';
  const parsed = ipaddr().fromByteArray(bytes);
  return parsed instanceof ipaddr().IPv6 && parsed.isIPv4MappedAddress()
    ? parsed.toIPv4Address().toString()
    : parsed.toString();
}

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function clash(held: string, wanted: string): boolean {
  const v4 = (a: string) => !a.includes(':');
  if (held === wanted || held === '::' || wanted === '::') return true;
  return (held === '0.0.0.0' || wanted === '0.0.0.0') && v4(held) && v4(wanted);
}

async function owners(inodes: ReadonlySet<string>): Promise<PortHolder[]> {
  const found: PortHolder[] = [];
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const fd of fds) {
      const target = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '');
      if (!target.startsWith('socket:[') || !inodes.has(target.slice(8, -1))) continue;
      const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '?');
      found.push({ pid: Number(pid), name: name.trim() });
      break;
    }
    if (found.length === 4) break;
  }
  return found;
}
