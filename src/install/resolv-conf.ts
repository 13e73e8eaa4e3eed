/** The host's resolv.conf: who wrote it, whom it names, and what it becomes. */
import { readlinkSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { ListenAddress } from '../config/types.js';
import { readResolvConf, withoutScope } from '../forward/resolv-conf.js';
import { type FileState, type FileWanted, readState } from './files.js';

export const RESOLV_CONF = '/etc/resolv.conf';
const DNS_PORT = 53;
/** More the C library does not read (resolv.conf(5)). */
const MAX_SERVERS = 3;
const MAX_LINKS = 8;

/** Files in which programs that manage resolv.conf keep the servers of the network, whatever resolv.conf says. */
const LIVE_FILES: readonly (readonly [RegExp, string])[] = [
  [/^\/run\/systemd\/resolve\//, '/run/systemd/resolve/resolv.conf'],
  [/^\/run\/NetworkManager\//, '/run/NetworkManager/no-stub-resolv.conf'],
  [/^\/run\/NetworkManager\//, '/run/NetworkManager/resolv.conf'],
  [/^\/run\/resolvconf\//, '/run/resolvconf/resolv.conf'],
];

/** Addresses of ours that a resolv.conf can name: it has no place for ports. */
export function namedServers(listen: readonly ListenAddress[]): string[] {
  const addresses = listen
    .filter(({ port }) => port === DNS_PORT)
    .map(({ address }) => (address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address));
  return [...new Set(addresses)].slice(0, MAX_SERVERS);
}

/** Where a path leads, links followed within the root, those on the way to it, too. */
export function followLinks(root: string, path: string): string {
  let at = '/';
  const rest = path.split('/').filter((part) => part !== '');
  for (let links = 0; rest.length > 0; ) {
    const next = resolve(at, rest.shift()!);
    const target = linkTarget(join(root, next));
    if (target === undefined || links++ >= MAX_LINKS) at = next;
    else {
      if (target.startsWith('/')) at = '/';
      rest.unshift(...target.split('/').filter((part) => part !== ''));
    }
  }
  return at;
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

export function serversIn(root: string, path: string, ours: readonly ListenAddress[]): ListenAddress[] {
  const state = readState(join(root, followLinks(root, path)));
  if (state.kind !== 'file') return [];
  return others(readResolvConf(state.bytes.toString('utf8')), ours);
}

/** Without our own: on a wildcard that is every address of this host. */
function others(servers: readonly ListenAddress[], ours: readonly ListenAddress[]): ListenAddress[] {
  const wild = ours.filter(({ port }) => port === DNS_PORT).map(({ address }) => address);
  const takes = (address: string) => wild.includes('::') || (isIPv4(address) && wild.includes('0.0.0.0'));
  const own = new Set(Object.values(networkInterfaces()).flatMap((of) => (of ?? []).map(({ address }) => address)));
  return servers.filter(({ address: scoped }) => {
    const address = withoutScope(scoped);
    return (
      !namedServers(ours).includes(address) &&
      !ours.some((one) => one.address === address) &&
      !(takes(address) && (own.has(address) || address.startsWith('127.')))
    );
  });
}

/**
 * Where the servers are that resolv.conf named so far: a file that its manager keeps writing, or what it says now.
 * Undefined when it names none but this host's.
 */
export function upstreamsOf(root: string, ours: readonly ListenAddress[], now: FileState): FileWanted | undefined {
  const target = now.kind === 'link' ? followLinks(root, resolve(dirname(RESOLV_CONF), now.target)) : RESOLV_CONF;
  for (const [managed, live] of LIVE_FILES)
    if (managed.test(target) && serversIn(root, live, ours).length > 0) return { kind: 'link', target: live };
  const text = now.kind === 'file' ? now.bytes.toString('utf8') : textAt(root, target);
  // systemd-resolved may have written a file in place of the link.
  const [, live] = LIVE_FILES[0]!;
  if (readResolvConf(text).length === 0 && serversIn(root, live, ours).length > 0)
    return { kind: 'link', target: live };
  const servers = others(readResolvConf(text), ours);
  if (servers.length === 0) return undefined;
  const head = `# Servers of ${RESOLV_CONF} as it was before \`holdfast install\`. Edit them as you like.\n`;
  const bytes = Buffer.from(head + servers.map(({ address }) => `nameserver ${address}\n`).join(''));
  return { kind: 'file', bytes, mode: 0o644 };
}

/** The new resolv.conf: ours, and of the old one what is not about servers. */
export function newResolvConf(root: string, listen: readonly ListenAddress[]): FileWanted {
  const kept = textAt(root, followLinks(root, RESOLV_CONF))
    .split('\n')
    .filter((line) => /^\s*(?:search|domain|options|sortlist)\s/.test(line))
    .map((line) => line.trim());
  const lines = [
    '# Written by `holdfast install`; `holdfast uninstall` puts back what was here before.',
    ...namedServers(listen).map((address) => `nameserver ${address}`),
    ...kept,
  ];
  return { kind: 'file', bytes: Buffer.from(`${lines.join('\n')}\n`), mode: 0o644 };
}

/** Whether a resolv.conf names one of our addresses. */
export function namesUs(text: string, listen: readonly ListenAddress[]): boolean {
  const ours = namedServers(listen);
  return text.split('\n').some((line) => ours.includes(/^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? ''));
}

function textAt(root: string, path: string): string {
  const state = readState(join(root, path));
  return state.kind === 'file' ? state.bytes.toString('utf8') : '';
}
