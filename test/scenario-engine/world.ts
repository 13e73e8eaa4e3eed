/** Everything around the resolver under a fake clock: its registries, its prober, its clients, and time itself. */
import type { ClientReport } from '../../src/admin/documents.js';
import { isOnDemand } from '../../src/config/on-demand.js';
import type { Config, RegistryConfig, ZoneConfig } from '../../src/config/types.js';
import { registryIdentity } from '../../src/registry/identity.js';
import type { LookUp } from '../../src/registry/look-up.js';
import type { ListedNode, Listing, ReleaseMark, Report } from '../../src/registry/registry.js';
import type { HostResult } from '../../src/resolver/host-table.js';
import { Resolver } from '../../src/resolver/resolver.js';
import { COUNTER_WORDS } from '../../src/server/counters.js';
import { type Peer, Responder } from '../../src/server/respond.js';
import type { BootMs, Instant, Ms } from '../../src/system/clock.js';
import { type Answer, decodeAnswer, encodeQuery, type Question } from './client.js';
import { spoken } from './duration.js';
import { ScriptedProber } from './prober.js';
import { SavedZones } from './saved-zones.js';
import { registryPath } from './settings.js';

/** A machine that has been up for a day, in 2026. */
const BOOT_AT_START: BootMs = 86_400_000;
const WALL_AT_START = 1_770_000_000_000;
const LOOKUP_MS: Ms = 20;
/** A resolver that asks for more ticks than this without time passing would never sleep. */
const MAX_TICKS_AT_ONCE = 1000;

export type Heard = 'heard' | 'unreachable' | 'unbelievable' | 'silent';
export type Confirms = 'list' | 'word' | 'never';

/** What a registry has and how it behaves when it is asked. */
interface ScriptedRegistry {
  readonly zone: string;
  /** As it is configured; its place in the zone's order of belief may change. */
  readonly identity: string;
  services: Map<string, Listing>;
  heard: Heard;
  reason: string;
  epoch: string;
  removalsBelievable: boolean;
  rejected: { where: string; reason: string }[];
  releases: ReleaseMark[];
  nodes: readonly ListedNode[] | undefined;
  /** R33: it is asked for one service after the other: which it has been asked for. Undefined: it lists all. */
  readonly known: Set<string> | undefined;
  /** Infinity before it has said anything. */
  nextPoll: BootMs;
  readonly interval: Ms;
}

export interface LogLine {
  readonly at: Ms;
  readonly level: string;
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export class World {
  readonly trace: string[] = [];
  readonly log: LogLine[] = [];
  readonly prober: ScriptedProber;
  /** Runs after every moment at which something happened. */
  onMoment: () => void = () => {};
  #config: Config;
  readonly #confirms: Confirms;
  readonly #registries = new Map<string, ScriptedRegistry>();
  #resolver: Resolver;
  #responder: Responder;
  #boot = BOOT_AT_START;
  #wallOffset = 0;
  #queries = 0;
  readonly #out = new Uint8Array(65_535);
  #saved = new SavedZones();

  /** What host names are found to be. */
  readonly hosts = new Map<string, string | readonly string[]>();
  /** R33: look-ups that were begun. */
  lookUps = 0;
  readonly #sought: { readonly zone: string; readonly service: string; readonly at: BootMs }[] = [];
  #advancing = false;
  readonly #lookups: { readonly host: string; readonly at: BootMs }[] = [];
  /**
   * As in the daemon: a restarted resolver leaves for later what its first answers do not need, and a list is taken in
   * in parts, with time for other things between.
   */
  deferring = false;

  constructor(config: Config, confirms: Confirms, idsAt: (place: string) => string[]) {
    this.#config = config;
    this.#confirms = confirms;
    this.prober = new ScriptedProber(idsAt);
    [this.#resolver, this.#responder] = this.#start();
    this.#script();
  }

  /** Time since the scenario began. */
  get elapsed(): Ms {
    return this.#boot - BOOT_AT_START;
  }

  get now(): Instant {
    return { boot: this.#boot, wall: WALL_AT_START + this.elapsed + this.#wallOffset };
  }

  get resolver(): Resolver {
    return this.#resolver;
  }

  note(text: string): void {
    this.trace.push(`[${spoken(this.elapsed)}] ${text}`);
  }

  /** Lets time pass, with everything that happens by itself meanwhile. */
  advance(to: Ms): void {
    this.#advancing = true;
    try {
      this.#advance(BOOT_AT_START + to);
    } finally {
      this.#advancing = false;
    }
    this.#save();
  }

  #advance(end: BootMs): void {
    for (;;) {
      const wake = this.#resolver.nextWake(this.now);
      this.#boot = Math.max(this.#boot, Math.min(end, wake, this.#nextEvent()));
      const woken = wake <= this.#boot;
      if (woken) this.#resolver.tick(this.now);
      const happened = this.#happen() || woken;
      if (happened) this.onMoment();
      else if (this.#boot >= end) return;
    }
  }

  /** @param place a zone, for its first registry, or `ZONE/WORD` as its configuration calls it; it may be gone by now */
  registry(place: string): ScriptedRegistry {
    const [name, word] = place.split('/');
    const configured = this.#config.zones.find((one) => one.name === name)?.registries[0];
    const wanted =
      word !== undefined
        ? registryIdentity({ type: 'file', path: registryPath(word) })
        : configured && registryIdentity(configured);
    for (const registry of this.#registries.values()) {
      if (registry.zone === name && (wanted === undefined || registry.identity === wanted)) return registry;
    }
    throw new Error(`no ${place} in this scenario`);
  }

  /** Registries that are new say nothing until a step makes them. */
  #script(): void {
    for (const zone of this.#config.zones) for (const one of zone.registries) this.script(zone, one);
  }

  /** There is such a registry, whether it is configured or not. */
  script({ name, softTtl }: Pick<ZoneConfig, 'name' | 'softTtl'>, one: RegistryConfig): void {
    const identity = registryIdentity(one);
    const key = `${name} ${identity}`;
    if (this.#registries.has(key)) return;
    this.#registries.set(key, {
      zone: name,
      identity,
      services: new Map(),
      heard: 'heard',
      reason: '',
      epoch: 'e1',
      removalsBelievable: true,
      rejected: [],
      releases: [],
      nodes: undefined,
      known: isOnDemand(one) ? new Set(this.#resolver.knownServices()[name]) : undefined,
      nextPoll: Number.POSITIVE_INFINITY,
      interval: softTtl / 2,
    });
  }

  /** The registry says all that it has, and goes on saying so. */
  list(place: string): void {
    this.#list(this.registry(place));
  }

  #list(registry: ScriptedRegistry): void {
    registry.heard = 'heard';
    this.#report(registry, {
      kind: 'list',
      at: this.#boot,
      epoch: registry.epoch,
      services: [...registry.services.values()].filter(({ name }) => registry.known?.has(name) !== false),
      ...(registry.nodes === undefined ? {} : { nodes: registry.nodes }),
      releases: registry.releases,
      rejected: registry.rejected,
      removalsBelievable: registry.removalsBelievable,
    });
  }

  change(zone: string, services: readonly Listing[], gone: readonly string[]): void {
    const registry = this.registry(zone);
    registry.heard = 'heard';
    for (const listing of services) registry.services.set(listing.name, listing);
    for (const name of gone) registry.services.delete(name);
    const { epoch, releases, rejected, known } = registry;
    const told = services.filter(({ name }) => known?.has(name) !== false);
    this.#report(registry, { kind: 'change', at: this.#boot, epoch, services: told, gone, releases, rejected });
  }

  /** What the registry does from now on when it is asked, and does now. */
  setHeard(zone: string, heard: Heard, reason: string): void {
    const registry = this.registry(zone);
    registry.heard = heard;
    registry.reason = reason;
    if (heard === 'silent') registry.nextPoll = Number.POSITIVE_INFINITY;
    else this.#poll(registry);
  }

  confirm(zone: string): void {
    this.#report(this.registry(zone), { kind: 'confirmed', at: this.#boot });
  }

  release(zone: string, service: string): void {
    this.registry(zone).releases.push({ service, wall: this.now.wall });
    this.list(zone);
  }

  /**
   * The resolver ends and another one starts on what was written, if anything.
   * @param config another one from now on
   * @param late what is not trusted is used only when two seconds have passed
   * @param wallStep what is done to the clock meanwhile
   */
  restart(
    downFor: Ms,
    snapshot: 'trusted' | 'untrusted' | 'none',
    config = this.#config,
    late = false,
    wallStep: Ms = 0,
  ): void {
    this.#save();
    const saved = this.#saved;
    this.#saved = new SavedZones(saved);
    this.#boot += downFor;
    this.#wallOffset += wallStep;
    this.prober.forgetTargets();
    this.#config = config;
    [this.#resolver, this.#responder] = this.#start();
    this.#script();
    const waiting: ZoneConfig[] = [];
    for (const zone of snapshot === 'none' ? [] : config.zones) {
      const trusted = snapshot === 'trusted' && saved.isOf(zone);
      if (late && !trusted) waiting.push(zone);
      else saved.restore(this.#resolver, zone, trusted, this.now, this.deferring);
    }
    for (const { zone, known } of this.#registries.values()) {
      known?.clear();
      for (const service of this.#resolver.knownServices()[zone] ?? []) known?.add(service);
    }
    this.#pollSoon();
    this.#settle();
    while (this.#resolver.putDeferred(1, this.now)) this.#settle();
    this.#settle();
    if (waiting.length === 0) return;
    this.advance(this.elapsed + 2_000);
    for (const zone of waiting) saved.restore(this.#resolver, zone, false, this.now, this.deferring);
    this.#settle();
  }

  #save(): void {
    this.#saved.save(this.#resolver, this.#config, this.now);
  }

  /** The machine is suspended, or the process stopped, for `length`. */
  gap(length: Ms): void {
    this.#boot += length;
    this.prober.skip(this.#boot);
    this.#resolver.clockGap(this.now);
    this.#pollSoon();
    this.#settle();
  }

  /** Somebody sets the clock. */
  stepWall(by: Ms): void {
    this.#wallOffset += by;
    this.#resolver.clockGap(this.now);
    this.#settle();
  }

  reload(config: Config): void {
    this.#save();
    this.#config = config;
    this.#script();
    this.#resolver.reload(config, this.now);
    for (const zone of config.zones) {
      if (this.#resolver.zone(zone.name)?.source !== 'none') continue;
      this.#saved.restore(this.#resolver, zone, this.#saved.isOf(zone), this.now, this.deferring);
    }
    this.#settle();
    while (this.#resolver.putDeferred(1, this.now)) this.#settle();
    this.#settle();
  }

  /** Clients say that connections failed (R20). */
  report(reports: readonly ClientReport[]): void {
    this.#resolver.reported(reports, this.now);
    this.#settle();
  }

  accept(service: string, zone: string | undefined): number {
    const released = this.#resolver.accept(service, zone, this.now)?.released ?? 0;
    this.#settle();
    return released;
  }

  drain(name: string, zone: string | undefined, undo: boolean): void {
    if (this.#resolver.drain(name, zone, undo, this.now) === undefined) throw new Error(`nothing is called ${name}`);
    this.#settle();
  }

  ask(question: Question): Answer {
    const query = encodeQuery((this.#queries = (this.#queries + 1) & 0xffff), question);
    return decodeAnswer(query, question, this.askRaw(query, question));
  }

  /** The reply's bytes, good until the next question. */
  askRaw(query: Uint8Array, question: Question): Uint8Array {
    const out = this.#out;
    const address = addressBytes(question.client);
    const peer = { family: address.length === 4 ? (4 as const) : (6 as const), bytes: address, offset: 0 };
    this.#responder.beginBatch();
    const length = this.#responder.respond(query, query.length, peer, 0, question.tcp ? 'tcp' : 'udp', out);
    this.#responder.endBatch();
    if (length === 0) throw new Error('no reply');
    return length > 0 ? out.subarray(0, length) : this.#askControl(query, question, peer);
  }

  /** Lets time pass until the control thread has answered. */
  #askControl(query: Uint8Array, question: Question, peer: Peer): Uint8Array {
    if (this.#advancing) throw new Error('a name that is looked up cannot be watched');
    let reply: Uint8Array | undefined;
    this.handOver(query, question, peer, (message) => {
      reply = message;
    });
    const began = this.elapsed;
    while (reply === undefined && this.elapsed < began + 10_000) this.advance(this.elapsed + 1);
    if (reply === undefined) throw new Error('no reply of the control thread');
    return reply;
  }

  /** As an answer thread does with what it cannot answer. */
  handOver(query: Uint8Array, { tcp }: Question, peer: Peer, reply: (message: Uint8Array | undefined) => void): void {
    const transport = tcp ? 'tcp' : 'udp';
    const taken = this.#resolver.lookUps.answer({ query, transport, peer, listen: 0 }, reply, this.now);
    if (!taken) throw new Error('the control thread has to answer, and it is no name to be looked up');
  }

  /** So many names that nobody has heard of are asked at once, and nobody waits for the replies. */
  flood(count: number, zone: string): void {
    const peer = { family: 4 as const, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 };
    for (let i = 0; i < count; i++) {
      const question: Question = {
        name: `r${i}.${zone}`,
        type: 'A',
        bufsize: 1232,
        tcp: false,
        client: '127.0.0.1',
        rd: false,
      };
      this.handOver(encodeQuery(i & 0xffff, question), question, peer, () => undefined);
    }
    this.#settle();
  }

  /** The prober's targets as told by events are those that the resolver has. */
  targetsAgree(): boolean {
    return this.prober.keys.join() === [...this.#resolver.targets().map((target) => target.key)].sort().join();
  }

  #start(): [Resolver, Responder] {
    const resolver = new Resolver(
      this.#config,
      {
        log: (level, event, fields) => {
          this.log.push({ at: this.elapsed, level, event, fields });
          this.note(`log ${level} ${event} ${JSON.stringify(fields)}`);
        },
        targets: (add, remove) => this.prober.targets(add, remove, this.#boot),
        probeNow: (keys) => this.prober.hasten(keys, this.#boot),
        resolve: (hosts) => {
          for (const host of hosts) this.#lookups.push({ host, at: this.#boot + LOOKUP_MS });
        },
        lookUp: (zone, service) => {
          this.lookUps++;
          this.note(`look-up of ${service}`);
          this.#sought.push({ zone, service, at: this.#boot + LOOKUP_MS });
        },
        know: (zone, add, drop) => {
          const { known } = this.registry(zone);
          for (const name of add) known?.add(name);
          for (const name of drop) known?.delete(name);
        },
      },
      this.now,
    );
    const { table } = resolver;
    const options = { maxUdp: 1232, tcpMax: 65_535, reader: table.addReader(), seed: 1 };
    const responder = new Responder(table.share(), new Uint32Array(COUNTER_WORDS), options);
    table.onChange = () => responder.update(table.share());
    return [resolver, responder];
  }

  #nextEvent(): BootMs {
    const lookUps = [this.#lookups[0]?.at, this.#sought[0]?.at].map((at) => at ?? Number.POSITIVE_INFINITY);
    let next = Math.min(this.prober.nextDue(), ...lookUps);
    for (const registry of this.#registries.values()) next = Math.min(next, registry.nextPoll);
    return next;
  }

  #happen(): boolean {
    let happened = false;
    for (const registry of this.#registries.values()) {
      if (registry.nextPoll > this.#boot) continue;
      this.#poll(registry);
      happened = true;
    }
    while (this.#lookups[0] !== undefined && this.#lookups[0].at <= this.#boot) {
      this.#found(this.#lookups.shift()!.host);
      happened = true;
    }
    while (this.#sought[0] !== undefined && this.#sought[0].at <= this.#boot) {
      const { zone, service } = this.#sought.shift()!;
      this.#lookUp(zone, service);
      happened = true;
    }
    const results = this.prober.due(this.#boot);
    if (results.length > 0) this.#resolver.results(results, this.now);
    return this.#settle() || results.length > 0 || happened;
  }

  /** A silent registry never answers. */
  #lookUp(zone: string, service: string): void {
    const registry = this.registry(zone);
    const { heard, reason, services, known, removalsBelievable } = registry;
    if (heard === 'silent') return;
    const listing = [...services.values()].find(({ name }) => name.toLowerCase() === service.toLowerCase());
    const absent: LookUp = removalsBelievable ? { kind: 'unknown' } : { kind: 'failed', reason: 'not all is seen' };
    const found: LookUp =
      heard !== 'heard' ? { kind: 'failed', reason } : listing === undefined ? absent : { kind: 'found', listing };
    if (found.kind === 'found') known?.add(found.listing.name);
    this.#resolver.lookedUp(zone, service, found, this.now);
    this.#settle();
  }

  #found(host: string): void {
    const found = this.hosts.get(host) ?? 'the name does not exist';
    const result =
      typeof found === 'string' ? { kind: 'failed', reason: found } : { kind: 'addresses', addresses: found };
    this.#resolver.resolved(host, result as HostResult, this.now);
  }

  /** Lets the resolver do what is due at this moment. */
  #settle(): boolean {
    for (let ticks = 0; ; ticks++) {
      if (this.#resolver.nextWake(this.now) > this.#boot) return ticks > 0;
      if (ticks === MAX_TICKS_AT_ONCE) throw new Error('the resolver wants to be woken without end');
      this.#resolver.tick(this.now);
    }
  }

  #poll(registry: ScriptedRegistry): void {
    if (registry.heard === 'heard') {
      if (this.#confirms === 'word') this.#report(registry, { kind: 'confirmed', at: this.#boot });
      else this.#list(registry);
      return;
    }
    if (registry.heard === 'silent') return;
    this.#report(registry, { kind: registry.heard, at: this.#boot, reason: registry.reason });
  }

  #report(registry: ScriptedRegistry, report: Report): void {
    registry.nextPoll = this.#confirms === 'never' ? Number.POSITIVE_INFINITY : this.#boot + registry.interval;
    const zone = this.#config.zones.find(({ name }) => name === registry.zone);
    const index = zone?.registries.findIndex((one) => registryIdentity(one) === registry.identity) ?? -1;
    if (index !== -1) this.#take(registry.zone, index, report);
    this.#settle();
  }

  #take(zone: string, index: number, report: Report): void {
    if (!this.deferring) {
      this.#resolver.report(zone, index, report, this.now);
      return;
    }
    this.#resolver.begin(zone, index, report, this.now);
    while (this.#resolver.goOn(zone, 1, this.now)) this.#resolver.tick(this.now);
  }

  #pollSoon(): void {
    for (const registry of this.#registries.values()) {
      if (registry.heard !== 'silent' && registry.nextPoll < Number.POSITIVE_INFINITY)
        registry.nextPoll = this.#boot + 1_000;
    }
  }
}

function addressBytes(text: string): Uint8Array {
  if (!text.includes(':')) return Uint8Array.from(text.split('.').map(Number));
  const halves = text.split('::').map((half) => half.split(':').filter(Boolean));
  const [head = [], tail = []] = halves;
  const groups =
    halves.length === 1 ? head : [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return Uint8Array.from(
    groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]),
  );
}
