/** What an install changes on this host, worked out before anything is touched. */
import { join } from 'node:path';
import { showListen } from '../config/addresses.js';
import type { Config } from '../config/types.js';
import { type Change, type FileWanted, InstallError, readState } from './files.js';
import { isOurs, readJournal, stateBefore } from './journal.js';
import {
  followLinks,
  namedServers,
  namesUs,
  newResolvConf,
  RESOLV_CONF,
  serversIn,
  upstreamsOf,
} from './resolv-conf.js';
import { type Program, unitFiles } from './units.js';

export type Mode = 'resolv-conf' | 'resolved';

export interface Plan {
  readonly mode: Mode;
  /** In this order; the last one hands the host over. */
  readonly changes: readonly Change[];
  /** Sentences on what else may be in the way. */
  readonly hints: readonly string[];
}

export interface PlanOptions {
  readonly root: string;
  readonly config: Config;
  readonly program: Program;
  /** Absent: what the configuration and the host ask for. */
  readonly mode?: Mode;
}

/** Beside the configuration; what `forward.resolvConf` is to name. */
export const UPSTREAMS_FILE = '/etc/holdfast/resolv.conf';
const NETWORK_MANAGER = '/etc/NetworkManager/conf.d';
const DHCLIENT_HOOKS = '/etc/dhcp/dhclient-enter-hooks.d';
const RESOLVED_STUB = /^\/run\/systemd\/resolve\//;

/** Throws an InstallError when it cannot be done on this host with this configuration. */
export function planInstall({ root, config, program, mode: wanted }: PlanOptions): Plan {
  const mode = wanted ?? (config.forward ? 'resolv-conf' : 'resolved');
  if (wanted === undefined && mode === 'resolved' && !hasResolved(root))
    throw new InstallError(
      'the configuration has no `forward`, so this can be no nameserver for all names, and there is no systemd-resolved ' +
        'here to send it those of the zones: add `forward`, or see docs/host.md for Unbound and dnsmasq',
    );
  if (mode === 'resolved' && asksUsAlone(root, config))
    throw new InstallError(
      `${RESOLV_CONF} names this server since an earlier install, for every name: \`holdfast uninstall --yes\` first`,
    );
  const units = unitFiles(root, program, config.listen);
  return mode === 'resolved' ? resolvedPlan(config, units) : resolvConfPlan(root, config, units);
}

function resolvConfPlan(root: string, config: Config, units: readonly Change[]): Plan {
  const { forward, listen } = config;
  const from = forward?.resolvConf === undefined ? undefined : belowRoot(root, forward.resolvConf);
  if (!forward)
    throw new InstallError(
      'the configuration has no `forward`: every other name of this host would be refused. Add `forward`, such as ' +
        `\`forward: { resolvConf: ${UPSTREAMS_FILE} }\`, which will name the servers that ${RESOLV_CONF} names now`,
    );
  if (namedServers(listen).length === 0)
    throw new InstallError(
      `no listen address has port 53 (${listen.map(showListen).join(', ')}), and ${RESOLV_CONF} has no place for another`,
    );
  const changes: Change[] = [...units];
  if (from !== undefined) {
    if (from === RESOLV_CONF)
      throw new InstallError(
        `forward.resolvConf is ${RESOLV_CONF}, which is to name this server: write ${UPSTREAMS_FILE} there`,
      );
    if (followLinks(root, from) === RESOLV_CONF)
      throw new InstallError(
        `forward.resolvConf: ${from} leads to ${RESOLV_CONF}, which is to name this server: remove that link`,
      );
    if (from === UPSTREAMS_FILE) changes.push(...upstreamsFile(root, config));
    else if (serversIn(root, from, listen).length === 0)
      throw new InstallError(`forward.resolvConf (${from}) names no server but this host's own`);
  }
  const hints: string[] = [];
  if (isFolder(root, NETWORK_MANAGER))
    changes.push({
      path: `${NETWORK_MANAGER}/holdfast.conf`,
      wanted: text("[main]\n# resolv.conf is not NetworkManager's to write.\nrc-manager=unmanaged\n"),
      why: `so that NetworkManager leaves ${RESOLV_CONF} alone (systemctl reload NetworkManager)`,
    });
  if (isFolder(root, DHCLIENT_HOOKS))
    changes.push({
      path: `${DHCLIENT_HOOKS}/holdfast`,
      wanted: text("# resolv.conf is not the DHCP client's to write.\nmake_resolv_conf() { :; }\n"),
      why: `so that dhclient leaves ${RESOLV_CONF} alone`,
    });
  const marks: readonly [string, string][] = [
    ['/etc/resolvconf/run', 'resolvconf'],
    ['/etc/dhcpcd.conf', 'dhcpcd (`nohook resolv.conf` in /etc/dhcpcd.conf)'],
    ['/etc/cloud/cloud.cfg', 'cloud-init (`manage_resolv_conf: false`)'],
  ];
  for (const [path, who] of marks)
    if (readStateOrFolder(root, path)) hints.push(`${who} is here and may write ${RESOLV_CONF}, too`);
  changes.push({
    path: RESOLV_CONF,
    wanted: newResolvConf(root, listen),
    why: 'this server is the only one that the host asks',
  });
  return { mode: 'resolv-conf', changes, hints };
}

/** What resolv.conf named before us: told by the journal when it names us already. */
function upstreamsFile(root: string, { listen }: Config): Change[] {
  const entry = readJournal(root)?.entries.find(({ path }) => path === RESOLV_CONF);
  const present = readState(join(root, UPSTREAMS_FILE));
  if (present.kind !== 'absent' && serversIn(root, UPSTREAMS_FILE, listen).length > 0) return [];
  const now = entry ? stateBefore(root, entry) : readState(join(root, RESOLV_CONF));
  const wanted = upstreamsOf(root, listen, now);
  if (!wanted)
    throw new InstallError(
      `${RESOLV_CONF} names no server but this host's own: write \`nameserver\` lines of your network into ${UPSTREAMS_FILE}`,
    );
  return [{ path: UPSTREAMS_FILE, wanted, why: `the servers that ${RESOLV_CONF} named, for forward.resolvConf` }];
}

function resolvedPlan({ listen, zones }: Config, units: readonly Change[]): Plan {
  const names = [...new Set(zones.map(({ name }) => name))];
  const servers = listen.map(({ address, port }) => {
    const plain = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
    return port === 53 ? plain : showListen({ address: plain, port });
  });
  const resolve = [
    '# Written by `holdfast install`: names of these zones are asked for here.',
    '[Resolve]',
    `DNS=${servers.join(' ')}`,
    `Domains=${names.map((name) => `~${name}`).join(' ')}`,
  ];
  const anchors = ['; Written by `holdfast install`: these zones are not signed.', ...names.map((name) => `${name}.`)];
  return {
    mode: 'resolved',
    changes: [
      ...units,
      {
        path: '/etc/dnssec-trust-anchors.d/holdfast.negative',
        wanted: text(`${anchors.join('\n')}\n`),
        why: 'so that systemd-resolved does not ask for signatures of names that have none',
      },
      {
        path: '/etc/systemd/resolved.conf.d/holdfast.conf',
        wanted: text(`${resolve.join('\n')}\n`),
        why: `so that systemd-resolved asks this server for ${names.join(', ')}`,
      },
    ],
    hints: [],
  };
}

function asksUsAlone(root: string, { listen }: Config): boolean {
  const entry = readJournal(root)?.entries.find(({ path }) => path === RESOLV_CONF);
  if (!entry) return false;
  const state = readState(join(root, RESOLV_CONF));
  return isOurs(entry, state) || (state.kind === 'file' && namesUs(state.bytes.toString('utf8'), listen));
}

/** A path of the configuration as the host has it, whose root may be a folder here. */
function belowRoot(root: string, path: string): string {
  return root !== '/' && path.startsWith(`${root}/`) ? path.slice(root.length) : path;
}

function hasResolved(root: string): boolean {
  return (
    RESOLVED_STUB.test(followLinks(root, RESOLV_CONF)) ||
    readStateOrFolder(root, '/run/systemd/resolve') ||
    readStateOrFolder(root, '/etc/systemd/resolved.conf')
  );
}

function text(content: string): FileWanted {
  return { kind: 'file', bytes: Buffer.from(content), mode: 0o644 };
}

function isFolder(root: string, path: string): boolean {
  return readStateOrFolder(root, path) && readStateOrFolder(root, `${path}/.`);
}

function readStateOrFolder(root: string, path: string): boolean {
  try {
    return readState(join(root, path)).kind !== 'absent';
  } catch {
    return true;
  }
}
