/** What the HTTP interface tells of the whole process. */
import { type AdminSource, type StatusDocument, type ZoneStatus, zoneTitle } from '../admin/documents.js';
import type { Config } from '../config/types.js';
import type { AnswerServer, ListenerStatus } from '../server/answer-server.js';
import type { Clock, Instant } from '../system/clock.js';
import { programVersion } from '../system/version.js';
import type { ForwardLink } from './forward-link.js';
import type { ProberLink } from './prober-link.js';
import type { Resolver } from './resolver.js';
import type { Snapshots } from './snapshots.js';
import { zoneView } from './status.js';
import { describeAge } from './status-text.js';
import type { Zone } from './zone.js';

export interface DaemonFacts {
  readonly config: Config;
  readonly lastGood: boolean;
  readonly configError: string | undefined;
  readonly reloads: { readonly done: number; readonly refused: number };
}

export interface DaemonParts {
  readonly resolver: Resolver;
  readonly server: AnswerServer;
  readonly prober: ProberLink;
  readonly snapshots: Snapshots;
  readonly forward: ForwardLink;
  readonly clock: Clock;
  readonly started: Instant;
  facts(): DaemonFacts;
  /** What else is wrong, a sentence each. */
  problems(): readonly string[];
  /** Something was changed from outside. */
  changed(): void;
  /** Resolves when what these zones have by now is on disk (R29), or with why it is not. */
  saved(zones: readonly Zone[]): Promise<string | undefined>;
}

/** Services named in an alarm; the others are counted. */
const ALARMED_SHOWN = 5;

export function adminSource(parts: DaemonParts, metrics: () => Promise<string>): AdminSource {
  const { resolver, clock } = parts;
  return {
    status: () => daemonStatus(parts),
    services: () => resolver.services(),
    explain: (name, type) => resolver.explain(name, type, clock.now()),
    ready: () => {
      const problems = notReady(parts);
      return { ready: problems.length === 0, problems };
    },
    accept: async (name, zone) => {
      const accepted = resolver.accept(name, zone, clock.now());
      if (accepted === undefined) return { unknown: unknownToAll(resolver, name, zone, 'service') };
      const { released, zones } = accepted;
      parts.changed();
      return { released, ...(await unsaved(parts, zones)) };
    },
    drain: async (name, zone, undo) => {
      const drained = resolver.drain(name, zone, undo, clock.now());
      if (drained === undefined) return { unknown: unknownToAll(resolver, name, zone, 'service, id or address') };
      const { receipt, zones } = drained;
      parts.changed();
      return { ...receipt, ...(await unsaved(parts, zones)) };
    },
    reported: (reports) => {
      resolver.reported(reports, clock.now());
      parts.changed();
    },
    metrics,
  };
}

/** A person's word is answered when it is on disk, or with why it is not. */
async function unsaved(parts: DaemonParts, zones: readonly Zone[]): Promise<{ unsaved?: string }> {
  const problem = await parts.saved(zones);
  return problem === undefined ? {} : { unsaved: problem };
}

export function daemonStatus(parts: DaemonParts): StatusDocument {
  const now = parts.clock.now();
  const { config, lastGood, configError } = parts.facts();
  const listeners = listenStatus(parts.server.listeners());
  const prober = proberStatus(parts);
  const zones = parts.resolver.zoneStatus(now);
  const forward = parts.forward.status();
  const portable = parts.server.portableReason;
  const problems: string[] = [];
  if (configError !== undefined) {
    problems.push(
      lastGood
        ? `running on the last good configuration: ${configError}`
        : `the last reload was refused: ${configError}`,
    );
  }
  for (const zone of zones) {
    const title = `zone ${zoneTitle(zone)}`;
    for (const { heard, since, source, reason, registry } of zone.registries) {
      if (heard) continue;
      const silent = describeAge(Math.max(0, now.wall - Date.parse(since))).text;
      const which = zone.registries.length > 1 ? `registry ${registry}` : 'registry';
      const capacity = source === 'none' ? 'nothing to answer with yet' : 'capacity is frozen: no new endpoints';
      problems.push(`${title}: ${which} not heard for ${silent} (${reason ?? 'unknown'}); ${capacity}`);
    }
    for (const datacenter of zone.unanswered ?? [])
      problems.push(`${title}: names of datacenter ${datacenter} are not answered: it is not in datacenters (R21)`);
    for (const host of zone.hosts.slice(0, ALARMED_SHOWN)) problems.push(`${title}: ${host} (R28)`);
    if (zone.guard.alarm) problems.push(`${title}: ${alarmText(zone)}`);
    for (const name of zone.floor) problems.push(`${title}: ${name} is answered by the floor (R11)`);
    for (const name of zone.withheld)
      problems.push(`${title}: all endpoints of ${name} belong to others: SERVFAIL (R19)`);
  }
  for (const { family, forMs } of prober.suspected ?? []) {
    const since = describeAge(forMs).text;
    problems.push(
      `over ${family} timeouts are not believed, for ${since} now: the fault is probably on this host (R16)`,
    );
  }
  if (prober.state === 'ok' && prober.short !== undefined)
    problems.push(`probes fail by a fault of this host (${prober.short}): they do not count (R15)`);
  if (prober.state === 'ok' && prober.late) problems.push(lateText(prober));
  if (prober.state === 'ok' && prober.unprobed !== undefined) problems.push(partialText(prober));
  if (prober.state === 'stale') problems.push('the prober is silent: dead endpoints are not left out');
  if (prober.state === 'never')
    problems.push('no prober has connected: dead endpoints are not left out (holdfast probe)');
  if (prober.odd !== undefined)
    problems.push(`not understood, and dropped: ${prober.odd} from the prober, which may be of another version (R36)`);
  for (const [zone, reason] of parts.snapshots.problems) problems.push(`zone ${zone}: snapshot not written: ${reason}`);
  problems.push(...parts.forward.problems(), ...parts.problems(), ...unusedSockets(parts.server.unused()));
  for (const { address, port, udp, tcp, error } of listeners) {
    if (udp === 'up' && tcp === 'up') continue;
    problems.push(`${address} port ${port} is not bound yet${error === undefined ? '' : `: ${error}`}`);
  }
  return {
    version: programVersion(),
    pid: process.pid,
    started: new Date(parts.started.wall).toISOString(),
    uptimeMs: Math.round(now.boot - parts.started.boot),
    state: problems.length === 0 ? 'ok' : 'degraded',
    problems,
    config: { file: config.file, lastGood, ...(configError === undefined ? {} : { error: configError }) },
    listen: listeners,
    transport: parts.server.transport,
    ...(portable === undefined ? {} : { transportReason: portable }),
    prober,
    zones,
    ...(forward === undefined ? {} : { forward }),
  };
}

/** How it stands, in one line. */
export function statusLine(parts: DaemonParts): string {
  const { state, problems, zones } = daemonStatus(parts);
  if (state === 'ok') return zones.length === 1 ? '1 zone, all is well' : `${zones.length} zones, all is well`;
  return `degraded: ${problems[0]}${problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''}`;
}

/** Sockets that were bound for us and that nobody answers. */
function unusedSockets(sockets: readonly string[]): string[] {
  return sockets.map(
    (socket) => `the socket ${socket} was passed to this server, and is not in listen: nobody answers there`,
  );
}

/** R9: what is held, and what to do about it. */
function alarmText({ name, guard }: ZoneStatus): string {
  const more = guard.services.length - ALARMED_SHOWN;
  const held = guard.services.slice(0, ALARMED_SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
  const release = guard.zone ? `holdfast accept '*' --zone ${name}` : 'holdfast accept NAME';
  return `the guard holds passing endpoints of ${held}: mend the registry, or let them go (${release})`;
}

function unknownToAll({ zones }: Resolver, name: string, zone: string | undefined, what: string): string {
  if (zone === undefined) return `no zone has a ${what} ${name}`;
  for (const { config } of zones) if (config.name === zone) return `zone ${zone} has no ${what} ${name}`;
  return `there is no zone ${zone}`;
}

function lateText({ stretch = 1, lateMs = 0 }: StatusDocument['prober']): string {
  const by = stretch > 1 ? `its intervals are ${stretch.toFixed(1)} times as long` : `by ${describeAge(lateMs).text}`;
  return `the prober is late, ${by}: what dies is left out later (R15, R17)`;
}

function partialText({ unprobed, targets }: StatusDocument['prober']): string {
  return `the prober lives, and does not probe ${unprobed} of ${targets} endpoints: dead ones among them are not left out (R14)`;
}

/** UDP and TCP of an address in one line. */
function listenStatus(listeners: readonly ListenerStatus[]): StatusDocument['listen'] {
  const state = (one: ListenerStatus | undefined): 'up' | 'retrying' => (one?.state === 'up' ? 'up' : 'retrying');
  return listeners
    .filter(({ protocol }) => protocol === 'udp')
    .map((udp) => {
      const tcp = listeners.find((o) => o.protocol === 'tcp' && o.address === udp.address && o.port === udp.port);
      const error = udp.error ?? tcp?.error;
      const { address, port } = udp;
      return { address, port, udp: state(udp), tcp: state(tcp), ...(error === undefined ? {} : { error }) };
    });
}

function proberStatus({ prober, resolver, clock }: DaemonParts): StatusDocument['prober'] {
  const status = prober.status();
  const suspected = resolver.suspected(clock.now().boot);
  const state = status.state === 'never' && resolver.targetCount === 0 ? 'not-needed' : status.state;
  return { ...status, state, ...(suspected.length === 0 ? {} : { suspected }) };
}

/** R25, R29: sockets answer, and every zone has data. */
function notReady(parts: DaemonParts): string[] {
  const problems: string[] = [];
  if (!parts.server.listeners().some(({ state }) => state === 'up')) problems.push('no listen address is bound');
  for (const zone of parts.resolver.zones) {
    if (zone.source !== 'none') continue;
    const title = zoneTitle({ name: zone.config.name, ...zoneView(zone.config) });
    problems.push(`zone ${title} has had no list and no snapshot yet`);
  }
  return problems;
}
