/** Histories of several zones that share addresses, with several registries, and all that may befall them (R1 to R20). */

import type { CatalogRow } from '../src/catalog/row.js';
import type { Service } from '../src/catalog/service.js';
import type { ReportedFailure } from '../src/health/reports.js';
import type { FailureKind } from '../src/prober/feed.js';
import type { RowState } from '../src/registry/registry.js';
import type { Zone } from '../src/resolver/zone.js';
import { encodeQuery, parseQuestion } from './scenario-engine/client.js';
import { Addresses, parseService } from './scenario-engine/services.js';
import { registryPath, ZONE } from './scenario-engine/settings.js';
import { type Heard, World } from './scenario-engine/world.js';
import { Belief } from './wide-belief.js';
import { CHECKS, configOf, PLACES } from './wide-config.js';
import { checkTold } from './wide-told.js';

const TAGS = ['blue', 'green'];
/** Twice the longest hold of a flapping row, so that a pass surely counts, and what it takes for a failure to count. */
const SURELY_PASSES_MS = 1_300_000;
const SURELY_FAILS_MS = 200_000;

export interface WideEndpoint {
  readonly n: number;
  readonly state: RowState;
  readonly priority: number;
  readonly tag: string;
  /** Whose address it has: its own, or that of another service's endpoint. */
  readonly of: string | undefined;
  /** The host name that it is listed by in place of an address (R28). */
  readonly host: string | undefined;
}
type Outcome = FailureKind | 'pass' | 'draining' | 'silent';

export type WideAction =
  | {
      readonly do: 'list';
      readonly place: string;
      readonly service: string;
      readonly endpoints: readonly WideEndpoint[];
      /** Which of `CHECKS` goes with it. */
      readonly check: number;
    }
  /** To addresses by service and number, those of nobody without a service, or why there are none. */
  | { readonly do: 'resolve'; readonly host: string; readonly to: readonly (readonly [string, number])[] | string }
  | { readonly do: 'release'; readonly place: string; readonly service: string }
  | { readonly do: 'drop'; readonly place: string; readonly service: string }
  | { readonly do: 'wipe'; readonly place: string; readonly epoch: boolean }
  | { readonly do: 'registry'; readonly place: string; readonly heard: Heard }
  | { readonly do: 'removals'; readonly place: string; readonly believable: boolean }
  | { readonly do: 'probe'; readonly who: string; readonly outcomes: readonly Outcome[] }
  | { readonly do: 'probe-all'; readonly outcome: Outcome }
  | { readonly do: 'report'; readonly who: string; readonly failure: ReportedFailure; readonly times: number }
  | { readonly do: 'drain'; readonly who: string; readonly undo: boolean }
  | { readonly do: 'accept'; readonly service: string }
  | { readonly do: 'conntrack'; readonly fill: number }
  | { readonly do: 'prober'; readonly alive: boolean }
  /** `to`: with another of `RELOADS`; `late`: a snapshot that is not trusted is used after the first words. */
  | {
      readonly do: 'restart';
      readonly downFor: number;
      readonly inParts: boolean;
      readonly trusted: boolean;
      readonly to?: number | undefined;
      readonly late: boolean;
    }
  | { readonly do: 'gap'; readonly length: number }
  | { readonly do: 'wall'; readonly by: number }
  | { readonly do: 'reload'; readonly to: number }
  | { readonly do: 'wait'; readonly ms: number };

export class WideHistory {
  readonly world: World;
  readonly #addresses = new Addresses();
  /** By id: what its probes say, and since when. */
  readonly #behaviour = new Map<string, { outcomes: readonly Outcome[]; since: number }>();
  /** Since when nothing happened that lets verdicts begin anew. */
  #calmSince = 0;
  #alive = true;
  /** What each service was like when it was last looked at: asking takes time. */
  readonly #seen = new WeakMap<Service, string>();
  #whole = false;
  /** Which of `RELOADS` is in force. */
  #reload = 0;
  #restarting = false;
  readonly #belief: Belief;

  constructor() {
    this.world = new World(configOf(0), 'list', (place) => this.#addresses.idsAt(place));
    this.world.script({ name: ZONE, softTtl: 10_000 }, { type: 'file', path: registryPath('third') });
    this.#belief = new Belief(this.world);
    for (const [place, services] of Object.entries(PLACES)) {
      const own = /right|floor|third/.test(place) ? [5, 6, 7] : [1, 2, 3, 4];
      for (const service of services)
        this.#put(
          place,
          service,
          own.map((n) => ({ n, state: 'passing', priority: 0, tag: TAGS[n % 2]!, of: undefined, host: undefined })),
        );
      this.world.list(place);
    }
    this.world.onMoment = () => this.check();
    this.world.advance(11_000);
  }

  run(action: WideAction): void {
    const { world } = this;
    switch (action.do) {
      case 'list':
        this.#put(action.place, action.service, action.endpoints, action.check);
        this.#disturbed();
        this.#tell(action.place, () =>
          world.change(action.place, [world.registry(action.place).services.get(action.service)!], []),
        );
        break;
      case 'drop':
        world.registry(action.place).services.delete(action.service);
        this.#tell(action.place, () => world.change(action.place, [], [action.service]));
        break;
      case 'wipe': {
        const registry = world.registry(action.place);
        registry.services.clear();
        if (action.epoch) registry.epoch = `after ${world.elapsed}`;
        this.#tell(action.place, () => world.list(action.place));
        break;
      }
      case 'resolve':
        world.hosts.set(
          action.host,
          typeof action.to === 'string'
            ? action.to
            : action.to.map(([name, n]) => (name === '' ? `10.9.0.${n}` : this.#addresses.addressOf(name, n))),
        );
        this.#disturbed();
        break;
      case 'release':
        if (world.registry(action.place).heard === 'heard') world.release(action.place, action.service);
        break;
      case 'registry':
        world.setHeard(action.place, action.heard, 'by the history');
        break;
      case 'removals':
        world.registry(action.place).removalsBelievable = action.believable;
        this.#tell(action.place, () => world.list(action.place));
        break;
      case 'probe':
        world.prober.behave(action.who, action.outcomes);
        for (const id of idsOf(action.who))
          this.#behaviour.set(id, { outcomes: action.outcomes, since: world.elapsed });
        break;
      case 'probe-all':
        for (const name of new Set(Object.values(PLACES).flat()))
          this.run({ do: 'probe', who: `${name}-*`, outcomes: [action.outcome] });
        break;
      case 'report':
        for (const id of idsOf(action.who)) {
          if (!this.#addresses.has(id)) continue;
          const { address, port, protocol } = this.#addresses.row(id);
          const one = { address, port, protocol, failure: action.failure };
          world.report(Array.from({ length: action.times }, () => one));
        }
        break;
      case 'drain':
        if (this.#isKnown(action.who)) world.drain(action.who, undefined, action.undo);
        break;
      case 'accept':
        world.accept(action.service, undefined);
        break;
      case 'conntrack':
        world.resolver.conntrack(action.fill, world.now);
        this.#disturbed();
        break;
      case 'prober':
        if (action.alive) world.prober.live(world.now.boot);
        else world.prober.die();
        this.#alive = action.alive;
        this.#disturbed();
        break;
      case 'restart':
        world.deferring = action.inParts;
        this.#reload = action.to ?? this.#reload;
        this.#restarting = true;
        world.restart(action.downFor, action.trusted ? 'trusted' : 'untrusted', configOf(this.#reload), action.late);
        this.#restarting = false;
        this.#belief.configured();
        this.#disturbed();
        break;
      case 'gap':
        world.gap(action.length);
        this.#disturbed();
        break;
      case 'wall':
        world.stepWall(action.by);
        this.#disturbed();
        break;
      case 'reload':
        this.#reload = action.to;
        world.reload(configOf(action.to));
        this.#belief.configured();
        this.#disturbed();
        break;
      case 'wait':
        world.advance(world.elapsed + action.ms);
        break;
    }
    this.#belief.look();
    this.#whole = true;
    this.check();
    this.#whole = false;
    this.#checkBelieved();
    checkTold(world);
    if (!world.targetsAgree()) throw new Error('targets told by events and targets asked for differ');
  }

  /** What a registry listed when it was last heard is answered (R4). */
  #checkBelieved(): void {
    for (const [name, zone] of this.#belief.names()) {
      const { failed, places } = this.#answer(name, zone, true);
      const rows = zone.catalog.services.get(name)?.standing() ?? [];
      const foreign = rows.length > 0 && rows.every((row) => row.foreign !== undefined);
      if (failed ? !foreign : places.length === 0) throw new Error(`${name}.${zone.config.name} is lost`);
    }
  }

  check(): void {
    if (this.#restarting) return;
    const { resolver } = this.world;
    for (const zone of resolver.zones) {
      let answered = 0;
      for (const service of zone.catalog.services.values()) {
        this.#checkService(zone, service);
        for (const row of service.rows.values()) if (row.answered) answered++;
      }
      if (zone.health.answered !== answered)
        throw new Error(`${zone.config.name}: ${answered} answered, ${zone.health.answered} counted`);
    }
  }

  #checkService(zone: Zone, service: Service): void {
    if (!service.known) return;
    const state = stateOf(service);
    if (!this.#whole && this.#seen.get(service) === state) return;
    this.#seen.set(service, state);
    const standing = service.standing();
    const where = `${service.name}.${zone.config.name}`;
    this.#checkSet(where, standing, this.#answer(service.name, zone));
    for (const tag of TAGS) {
      const tagged = standing.filter((row) => row.tags.includes(tag));
      if (tagged.length > 0) this.#checkSet(`${tag}.${where}`, tagged, this.#answer(`${tag}.${service.name}`, zone));
    }
    const { softCap } = zone.probes.settings(service).check;
    const own = standing.filter((row) => row.answered);
    this.#checkSoftCap(where, standing, softCap);
    const told = this.#answer(service.name, zone);
    const expected = [...new Set(own.map(placeOf))].sort();
    if (!told.failed && told.places.join() !== expected.join())
      throw new Error(`${where}: ${expected} answered by the rows, ${told.places} by the table`);
  }

  /** What holds for the rows of a service, and for those of a tag. */
  #checkSet(where: string, rows: readonly CatalogRow[], { failed, places }: Told): void {
    if (rows.length === 0) return;
    const own = rows.filter((row) => row.foreign === undefined);
    if (failed !== (own.length === 0))
      throw new Error(`${where}: ${failed ? 'SERVFAIL with' : 'answered without'} rows`);
    if (failed) return;
    if (places.length === 0) throw new Error(`${where} is known, and its answer is empty`);
    const isIn = (row: CatalogRow) => row.host === undefined && places.includes(`${row.address}:${row.port}`);
    const foreign = rows.find((row) => row.foreign !== undefined && isIn(row));
    if (foreign && !own.some((row) => row.address === foreign.address && row.port === foreign.port))
      throw new Error(`${where}: ${foreign.id} is another one's and is answered (R19)`);
    const corpse = own.find((row) => row.column === 'fails' && row.hard && isIn(row));
    const living = own.find((row) => row.column === 'passes' && row.listed && row.priority === corpse?.priority);
    if (corpse && living)
      throw new Error(`${where}: ${corpse.id} fails hard and is answered, and ${living.id} of its priority passes`);
    this.#checkByBehaviour(where, own, isIn);
  }

  /** The same without a look at the verdicts: who surely fails is not answered while somebody surely passes. */
  #checkByBehaviour(where: string, rows: readonly CatalogRow[], isIn: (row: CatalogRow) => boolean): void {
    if (!this.#alive) return;
    const { elapsed, now } = this.world;
    const surely = (row: CatalogRow, outcome: Outcome, ms: number): boolean => {
      if (!row.listed || row.host !== undefined || row.target === undefined || now.boot - row.listedSince < ms)
        return false;
      if (this.#addresses.idsAt(`${row.address}:${row.port}`).length > 1) return false;
      const said = this.#behaviour.get(row.id) ?? { outcomes: ['pass'], since: 0 };
      const since = Math.max(said.since, this.#calmSince);
      return said.outcomes.length === 1 && said.outcomes[0] === outcome && elapsed - since >= ms;
    };
    const corpse = rows.find((row) => isIn(row) && surely(row, 'refused', SURELY_FAILS_MS));
    if (corpse === undefined) return;
    const living = rows.find(
      (row) => row.priority === corpse.priority && surely(row, 'pass', SURELY_PASSES_MS) && !row.doubted,
    );
    if (living) throw new Error(`${where}: ${corpse.id} has refused for minutes, ${living.id} has passed`);
  }

  /** R12: soft failures hold back at most a share of a priority. */
  #checkSoftCap(where: string, rows: readonly CatalogRow[], softCap: number): void {
    const standing = rows.filter((row) => row.passing && !row.hard && !row.longDead && row.foreign === undefined);
    for (const priority of new Set(standing.map((row) => row.priority))) {
      const group = standing.filter((row) => row.priority === priority);
      const out = group.filter((row) => !row.answered);
      if (out.length > Math.ceil(group.length * softCap))
        throw new Error(`${where}: ${out.map(({ id }) => id)} of ${group.length} are held back by soft failures (R12)`);
    }
  }

  /** @param any whether it may be that there is no such name */
  #answer(name: string, zone: Zone, any = false): Told {
    const question = parseQuestion(`${name} +tcp`, zone.config.name);
    const reply = Buffer.from(this.world.askRaw(encodeQuery(7, question), question));
    const rcode = reply[3]! & 15;
    if (any && rcode === 3) return { failed: false, places: [] };
    if (rcode !== 0 && rcode !== 2) throw new Error(`${name}.${zone.config.name}: rcode ${rcode}`);
    return { failed: rcode === 2, places: rcode === 2 ? [] : placesOf(this.world.ask(question).answers) };
  }

  #put(place: string, service: string, endpoints: readonly WideEndpoint[], check = 0): void {
    const unique = new Map<string, string>();
    for (const { n, state, priority, tag, of, host } of endpoints) {
      const at = host !== undefined ? ` at=${host}` : of === undefined ? '' : ` at=${this.#addresses.addressOf(of, n)}`;
      unique.set(host ?? `${of ?? service}-${n}`, `${n} ${state} priority=${priority} tag=${tag}${at}`);
    }
    const text = { endpoints: [...unique.values()], check: CHECKS[check] };
    this.world.registry(place).services.set(service, parseService(service, text, this.#addresses));
  }

  /** A heard registry tells what changed, or everything to a resolver that has heard no list yet. */
  #tell(place: string, change: () => void): void {
    const registry = this.world.registry(place);
    if (registry.heard !== 'heard') return;
    const zone = this.world.resolver.zone(registry.zone);
    const source = zone?.sources.all.find(({ identity }) => identity === registry.identity);
    if (source?.from === 'registry') change();
    else if (source !== undefined) this.world.list(place);
  }

  #disturbed(): void {
    this.#calmSince = this.world.elapsed;
  }

  #isKnown(name: string): boolean {
    for (const zone of this.world.resolver.zones) {
      for (const service of zone.catalog.services.values()) {
        const rows = service.standing();
        if (rows.some(({ id }) => id === name) || (service.name === name && service.known && rows.length > 0))
          return true;
      }
    }
    return false;
  }
}

function idsOf(who: string): string[] {
  const [service, n] = who.split('-');
  return (n === '*' ? [1, 2, 3, 4, 5, 6, 7, 8] : [n]).map((one) => `${service}-${one}`);
}

/** All that its answers may come from. */
function stateOf(service: Service): string {
  let state = '';
  for (const row of service.rows.values()) {
    const { id, priority, column, hard, foreign, listed, answered, ejected, draining, state: said } = row;
    state += `${id} ${priority} ${column} ${hard} ${foreign} ${listed} ${answered} ${ejected} ${draining} ${said};`;
  }
  return state;
}

interface Told {
  readonly failed: boolean;
  readonly places: string[];
}

function placesOf(answers: readonly { readonly type?: number }[]): string[] {
  return answers
    .map((rr) => rr as unknown as { target: string; port: number })
    .map(({ target, port }) => `${target.split('.')[0]!.replaceAll('-', '.')}:${port}`)
    .sort();
}

function placeOf(row: CatalogRow): string {
  return row.host === undefined ? `${row.address}:${row.port}` : `${row.host.split('.')[0]}:${row.port}`;
}
