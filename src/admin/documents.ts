/** The JSON documents of the control socket and of `--json`. Keys are a contract: add, never rename. */
import type { Ms, WallMs } from '../system/clock.js';

export interface StatusDocument {
  version: string;
  pid: number;
  /** Wall time of the start, ISO 8601. */
  started: string;
  uptimeMs: Ms;
  /** `ok`, or what is worse than it should be, in words a person can act on. */
  state: 'ok' | 'degraded';
  problems: string[];
  config: { file: string; lastGood: boolean; error?: string };
  listen: { address: string; port: number; udp: 'up' | 'retrying'; tcp: 'up' | 'retrying'; error?: string }[];
  transport: string;
  /** Why it is the portable one; absent otherwise. */
  transportReason?: string;
  prober: ProberStatus;
  zones: ZoneStatus[];
  /** Absent while nothing is forwarded. */
  forward?: ForwardStatus;
}

/** Names that no zone owns. Counts are sums since the start, without fresh answers that an answer thread gave by itself. */
export interface ForwardStatus {
  upstreams: {
    address: string;
    /** Of a domain with servers of its own. */
    domain?: string;
    /** `down`: asked last; `loop`: it is this server, or passes questions back to it, and is not asked. */
    state: 'up' | 'down' | 'loop';
    queries: number;
    failures: number;
    /** Messages that were no reply to what was asked. */
    forged: number;
    lastError?: string;
  }[];
  /** Absent: no hosts file is read. `ignored`: what of it makes no sense. */
  hosts?: { file: string; names: number; ignored: number };
  cache: { entries: number; bytes: number };
  counts: {
    queries: number;
    hits: number;
    stale: number;
    failureHits: number;
    flights: number;
    local: number;
    failures: number;
    refused: number;
  };
}

/** The abridged status on `public.sock`: no paths, and nobody's names (R36). */
export interface PublicStatus {
  version: string;
  uptimeMs: Ms;
  state: 'ok' | 'degraded';
  prober: ProberStatus['state'];
  zones: { total: number; heard: number; stale: number; neverSynced: number };
}

/** A client's word on one connection that failed (R20). */
export interface ClientReport {
  /** The name that it had asked for: only endpoints of its zone are meant. */
  service?: string;
  address: string;
  port: number;
  protocol: 'tcp' | 'udp';
  failure: 'refused' | 'reset' | 'timeout' | 'unreachable' | 'other';
  /** When, in milliseconds since 1970; absent: now. */
  at?: WallMs;
}

/** What became of a client's reports: taken, older than 10 s, over the limits. Not whom they are about (R36). */
export interface ReportReceipt {
  accepted: number;
  late: number;
  limited: number;
}

/** What `holdfast drain` did: endpoints that were meant, that changed, and that are answered all the same (R11). */
export interface DrainReceipt {
  endpoints: number;
  changed: number;
  answered: number;
  /** Why that is not on disk yet, so that a crash now would undo it; absent: it is (R29). */
  unsaved?: string;
}

export interface ProberStatus {
  /** `stale`: it was here and its word has run out or is late; `never`: none has connected. */
  state: 'ok' | 'stale' | 'never' | 'not-needed';
  pid?: number;
  targets: number;
  lastHeardMs?: Ms;
  /** How late its event loop or its schedule is. */
  lateMs?: Ms;
  localErrors?: number;
  /** By how much intervals are longer than they should be; absent: they are not. */
  stretch?: number;
  /** R15: late in the last 10 s, or over budget. */
  late?: boolean;
  /** R15: what it lacked in the last 10 s, such as `EMFILE`. */
  short?: string;
  /** R14: so many targets it did not probe lately, alive as it is; absent: it probes all. */
  unprobed?: number;
  /** R36: of what it said in the last minute, the latest that makes no sense. */
  odd?: string;
  /** Why its plain TCP checks are done without native calls; absent: they are not. */
  portable?: string;
  /** R16: families whose timeouts are not believed at present, since when. */
  suspected?: { family: 'IPv4' | 'IPv6'; forMs: Ms }[];
}

/** R33. Counts are sums since the start. */
export interface OnDemandStatus {
  /** Questions that wait for a look-up at present. */
  waiting: number;
  /** Services that the registry has not, as it said lately, or that it said nothing about. */
  unknown: number;
  /** Look-ups by what they brought. */
  lookUps: { found: number; unknown: number; failed: number };
  /** Questions for services that were not looked up: answered by what was remembered; too many, or in an outage. */
  remembered: number;
  refused: number;
}

export interface ZoneStatus {
  name: string;
  /** The addresses that it is asked at (R31), such as `10.0.0.1:53, [fd00::1]:53`; absent when it is all of them. */
  view?: string;
  /** `stale`: answered as before, refresh wanted (R1). `never-synced`: no list and no snapshot yet. */
  state: 'fresh' | 'stale' | 'never-synced';
  /** False: no new capacity can be discovered; capacity is frozen at its present level. */
  heard: boolean;
  /** Why the registry is not heard. */
  reason?: string;
  /** ISO 8601: since when it has been heard or not. */
  since: string;
  lastConfirmedMs?: Ms;
  /** Its registry is asked for what clients ask (R33); absent where it is mirrored whole. */
  onDemand?: OnDemandStatus;
  registry: string;
  /** Each of them, in order of belief (R32). With several, a zone is heard only when all of them are. */
  registries: RegistryStatus[];
  /** `snapshot` until the first believable list. */
  source: 'registry' | 'snapshot' | 'none';
  services: number;
  endpoints: number;
  answered: number;
  heldBack: number;
  /** Of those held back: since connections of clients failed (R20). */
  ejected: number;
  /** Endpoints that an operator drains (`holdfast drain`). */
  drained: number;
  guarded: number;
  guard: { zone: boolean; services: string[]; alarm: boolean };
  /** Services that are answered by the floor (R11). */
  floor: string[];
  /** Services that are SERVFAIL, since all their endpoints belong to others by now (R19). */
  withheld: string[];
  /** The first of them; `rejectedCount` is how many there are. */
  rejected: { where: string; reason: string }[];
  rejectedCount: number;
  conflicts: string[];
  /** R22: services and ports whose names are no labels, some of them, and how many there are. */
  unnamed: string[];
  unnamedCount: number;
  /** With `naming: consul`: datacenters of the registry that are not in `datacenters`, so that their names are not answered. */
  unanswered?: string[];
  /** Host names of endpoints that could not be resolved, a sentence each (R28). */
  hosts: string[];
  /** `off`: stale rows are not corrected. */
  checks: 'on' | 'off';
  softTtlMs: Ms;
}

export interface RegistryStatus {
  /** What and where it is, such as `file:/etc/holdfast/services.yaml`. */
  registry: string;
  heard: boolean;
  reason?: string;
  since: string;
  lastConfirmedMs?: Ms;
  source: 'registry' | 'snapshot' | 'none';
  stale: boolean;
  revision?: string;
  /** What it lists itself, answered or not. */
  services: number;
  endpoints: number;
  /** Entries that were left out. */
  rejectedCount: number;
  /** Names that it had and has no more, which later registries do not answer (R32). */
  once: number;
}

/** What tells a zone from others for a person: zones of one name differ in their view. */
export function zoneTitle({ name, view }: Pick<ZoneStatus, 'name' | 'view'>): string {
  return view === undefined ? name : `${name} (${view})`;
}

export interface ServiceStatus {
  zone: string;
  name: string;
  /** The label under which it is answered; absent when it has none (R22). */
  label?: string;
  endpoints: number;
  answered: number;
  heldBack: number;
  guarded: boolean;
  floor: string | null;
}

/** Why each endpoint of a name is in or out. */
export interface Explanation {
  name: string;
  type: string;
  zone?: string;
  service?: string;
  /** What a client that may ask is answered: `answer`, `nodata`, `nxdomain`, `servfail`, `refused`, `formerr`; `forwarded` for a name of no zone, and for one that the agents of a zone are asked for; `look-up` for one that the registry would be asked for (R33). */
  outcome: string;
  /** One sentence a rule. */
  because: string[];
  stale: boolean;
  endpoints: EndpointExplanation[];
  /** Where the zone is a view: the addresses that it is asked on (R31). */
  view?: string;
  /** What is answered on other addresses, where other views or zones have the name; each without others. */
  others?: Explanation[];
}

export interface EndpointExplanation {
  id: string;
  address: string;
  /** The host name that its address came from (R28). */
  host?: string;
  port: number;
  protocol: string;
  priority: number;
  weight: number;
  tags: string[];
  /** Row of the table (R10). */
  word: 'listed' | 'critical' | 'draining' | 'absent-guarded' | 'absent-released';
  /** Column of the table (R10). */
  probe: 'passes' | 'fails' | 'no-word';
  /** In the answer to this very question; with `maxAnswers`, among those that it is drawn from. */
  answered: boolean;
  /** In a sentence, with the rule's number. */
  why: string;
  /** In a zone with several registries: those that list it, or whose guard holds it (R32). */
  registries?: string[];
  lastResultMs?: Ms;
  lastSuccessMs?: Ms;
  failingForMs?: Ms;
  lastFailure?: string;
  /** Who drains it: the registry is not named. */
  drainedBy?: 'operator' | 'endpoint';
  heldForMs?: Ms;
  /** R20: out for so long yet, since connections of clients failed. */
  ejectedForMs?: Ms;
  /** What its probes said lately, the newest first; the last 100, and failures for longer. Absent when it is not probed. */
  results?: ProbeRun[];
}

/** Equal results in a row. */
export interface ProbeRun {
  /** `pass`, or the kind of failure: `refused`, `timeout`, and so on (R12). */
  outcome: string;
  detail?: string;
  /** They did not count (R16). */
  void?: true;
  count: number;
  /** How long ago the first and the last of them was. */
  firstMs: Ms;
  lastMs: Ms;
  /** The longest that one of them took. */
  tookMs: Ms;
}

/** What the HTTP interface asks of the resolver. */
export interface AdminSource {
  status(): StatusDocument;
  services(): ServiceStatus[];
  /** The name has a wire form, and the type exists. */
  explain(name: string, type: string): Explanation;
  /** Ready: sockets answer and every zone has data (R25, R29). */
  ready(): { ready: boolean; problems: string[] };
  /**
   * R9: lets held rows go. `name` is a service's name or `*`; `zone` is needed only when it is ambiguous. Returns how
   * many, or a sentence that says what is not known. `unsaved`: as of `DrainReceipt`.
   */
  accept(name: string, zone?: string): Promise<{ released: number; unsaved?: string } | { unknown: string }>;
  /**
   * R10: drains a service, or endpoints by id, address, or address and port; or no longer. A sentence when nothing has
   * the name.
   */
  drain(name: string, zone: string | undefined, undo: boolean): Promise<DrainReceipt | { unknown: string }>;
  /** R20: what a client said of failed connections, within the limits. */
  reported(reports: readonly ClientReport[]): void;
  metrics(): Promise<string>;
}
