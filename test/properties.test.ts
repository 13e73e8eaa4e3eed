/** Properties of the rules over random histories, and over all short ones. */
import fc from 'fast-check';
import t from 'tap';
import { encodeQuery, parseQuestion } from './scenario-engine/client.js';
import { Addresses, parseService } from './scenario-engine/services.js';
import { settings, ZONE } from './scenario-engine/settings.js';
import { type Heard, World } from './scenario-engine/world.js';

type State = 'passing' | 'critical' | 'draining';
interface Endpoint {
  readonly n: number;
  readonly state: State;
  readonly priority: number;
}
type Outcome = 'pass' | 'refused' | 'timeout' | 'wrong-identity' | 'silent';

type Action =
  | { readonly do: 'list'; readonly service: string; readonly endpoints: readonly Endpoint[] }
  | { readonly do: 'drop'; readonly service: string }
  | { readonly do: 'wipe' }
  | { readonly do: 'registry'; readonly heard: Heard }
  | { readonly do: 'probe'; readonly who: string; readonly outcome: Outcome }
  | { readonly do: 'prober'; readonly alive: boolean }
  /** `inParts`: what the first answers do not need is restored after them. */
  | { readonly do: 'restart'; readonly downFor: number; readonly inParts: boolean }
  | { readonly do: 'gap'; readonly length: number }
  | { readonly do: 'accept'; readonly service: string }
  | { readonly do: 'wait'; readonly ms: number };

const SERVICES = ['a', 'b', 'c', 'd'];
const { guard, check } = settings({}, {}).zones[0]!;

/** How many times the number of histories that each commit is tried with: `THOROUGH=50` for a night's search. */
const THOROUGH = Number(process.env.THOROUGH ?? 1);

/** A history under way, with the invariants that hold at every moment. */
class History {
  readonly world: World;
  readonly #addresses = new Addresses();
  /** What the registry last said while it was heard. */
  #believed = new Map<string, number>();
  /** Each row's word when the registry fell silent; undefined while it is heard. */
  #frozen: Map<string, string> | undefined;
  readonly #queries = new Map(
    SERVICES.map((service) => {
      const question = parseQuestion(`${service} +tcp`, ZONE);
      return [service, { question, query: encodeQuery(7, question) }] as const;
    }),
  );

  constructor() {
    this.world = new World(settings({}, {}), 'list', (place) => this.#addresses.idsAt(place));
    for (const service of SERVICES)
      this.#put(
        service,
        [1, 2, 3, 4].map((n) => ({ n, state: 'passing', priority: 0 })),
      );
    this.world.list(ZONE);
    this.#believe();
    this.world.onMoment = () => this.#check();
    this.world.advance(11_000);
  }

  get heard(): boolean {
    return this.world.registry(ZONE).heard === 'heard';
  }

  run(action: Action): void {
    const { world } = this;
    const registry = world.registry(ZONE);
    switch (action.do) {
      case 'list':
        this.#put(action.service, action.endpoints);
        this.#tell(() => world.change(ZONE, [registry.services.get(action.service)!], []));
        break;
      case 'drop':
        registry.services.delete(action.service);
        this.#tell(() => world.change(ZONE, [], [action.service]));
        break;
      case 'wipe':
        registry.services.clear();
        if (this.heard) world.list(ZONE);
        break;
      case 'registry':
        if (action.heard === 'heard') this.#frozen = undefined;
        world.setHeard(ZONE, action.heard, 'by the history');
        break;
      case 'probe':
        world.prober.behave(action.who, action.outcome);
        break;
      case 'prober':
        if (action.alive) world.prober.live(world.now.boot);
        else world.prober.die();
        break;
      case 'restart': {
        const before = this.answers();
        world.deferring = action.inParts;
        world.restart(action.downFor, 'trusted');
        equal(this.answers(), before, 'a restart changes no answer (R29)');
        break;
      }
      case 'gap':
        world.gap(action.length);
        break;
      case 'accept':
        // A person may move rows while the registry is silent.
        this.#frozen = undefined;
        world.accept(action.service, undefined);
        break;
      case 'wait':
        world.advance(world.elapsed + action.ms);
        break;
    }
    if (this.heard) this.#believe();
    else this.#frozen ??= this.#words();
    this.#check();
    if (this.#frozen) equal([...this.#words()].sort(), [...this.#frozen].sort(), 'silence moves nothing (R4)');
    if (!world.targetsAgree()) throw new Error('targets told by events and targets asked for differ');
  }

  /** The ids that each service is answered with. */
  answers(): Record<string, string[]> {
    return Object.fromEntries(SERVICES.map((service) => [service, this.answer(service)]));
  }

  answer(service: string): string[] {
    const reply = this.world.ask(this.#queries.get(service)!.question);
    return reply.answers
      .map((rr) => String(rr.target).split('.')[0]!.replaceAll('-', '.'))
      .map((address) => this.#addresses.idsAt(address)[0]!)
      .sort();
  }

  /** Ids that the registry lists as passing at present. */
  listedPassing(service: string): string[] {
    const rows = this.world.registry(ZONE).services.get(service)?.rows ?? [];
    return rows
      .filter((row) => row.state === 'passing')
      .map((row) => row.id)
      .sort();
  }

  isListed(id: string): boolean {
    const { services } = this.world.registry(ZONE);
    return [...services.values()].some((listing) => listing.rows.some((row) => row.id === id));
  }

  get zoneGuarded(): boolean {
    return this.world.resolver.zoneStatus(this.world.now).some((zone) => zone.guard.zone);
  }

  /** The registry lists what it has as passing, but for what drains. */
  recover(): void {
    const { services } = this.world.registry(ZONE);
    for (const [name, listing] of services) {
      const rows = listing.rows.map((row) => (row.state === 'critical' ? { ...row, state: 'passing' as const } : row));
      services.set(name, { ...listing, rows });
    }
    this.world.list(ZONE);
    this.#believe();
  }

  everyId(): string[] {
    return SERVICES.flatMap((service) => [1, 2, 3, 4, 5, 6, 7, 8].map((n) => `${service}-${n}`));
  }

  #put(service: string, endpoints: readonly Endpoint[]): void {
    const unique = new Map(endpoints.map((one) => [one.n, one]));
    const text = [...unique.values()].map(({ n, state, priority }) => `${n} ${state} priority=${priority}`);
    this.world.registry(ZONE).services.set(service, parseService(service, text, this.#addresses));
  }

  /** A heard registry tells what changed, or everything to a resolver that has heard no list yet. */
  #tell(change: () => void): void {
    if (!this.heard) return;
    const synced = this.world.resolver.zoneStatus(this.world.now).every((zone) => zone.source === 'registry');
    if (synced) change();
    else this.world.list(ZONE);
  }

  #believe(): void {
    const { services } = this.world.registry(ZONE);
    this.#believed = new Map([...services.values()].map((listing) => [listing.name, listing.rows.length]));
    this.#frozen = undefined;
  }

  #words(): Map<string, string> {
    const words = new Map<string, string>();
    for (const service of SERVICES) {
      for (const one of this.world.resolver.explain(`${service}.${ZONE}`, 'SRV', this.world.now).endpoints) {
        if (one.word !== 'absent-released') words.set(`${service} ${one.id}`, one.word);
      }
    }
    return words;
  }

  /** R19's one exception: every row that stands was found to be another's, and no probe has passed since. */
  #isForeign(name: string): boolean {
    const rows = this.world.resolver.zone(ZONE)?.catalog.services.get(name)?.standing() ?? [];
    return rows.length > 0 && rows.every((row) => row.column !== 'passes' && row.foreign === 'wrong-identity');
  }

  #check(): void {
    for (const [service, rows] of this.#believed) {
      if (rows === 0) continue;
      const { question, query } = this.#queries.get(service)!;
      const reply = this.world.askRaw(query, question);
      const rcode = reply[3]! & 15;
      const count = (reply[6]! << 8) | reply[7]!;
      if (rcode === 2 && count === 0 && this.#isForeign(service)) continue;
      if (rcode !== 0 || count === 0)
        throw new Error(`${service} is known and answered with ${count} records, rcode ${rcode}`);
    }
    for (const service of this.world.resolver.zone(ZONE)?.catalog.services.values() ?? []) {
      const rows = [...service.rows.values()].filter((row) => row.answered);
      const failing = rows.find((row) => row.column === 'fails' && row.hard);
      const passing = rows.find((row) => row.column === 'passes');
      const foreign = rows.find((row) => row.foreign !== undefined);
      if (foreign) throw new Error(`${foreign.id} belongs to another one and is answered (R19)`);
      if (failing && passing)
        throw new Error(`${failing.id} fails hard and is answered beside ${passing.id}, which passes`);
    }
  }
}

function equal(got: unknown, expected: unknown, what: string): void {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

const service = fc.constantFrom(...SERVICES);
const endpoint: fc.Arbitrary<Endpoint> = fc.record({
  n: fc.integer({ min: 1, max: 8 }),
  state: fc.constantFrom<State>('passing', 'passing', 'passing', 'critical', 'draining'),
  priority: fc.constantFrom(0, 0, 0, 10),
});
const who = fc.oneof(
  fc.tuple(service, fc.integer({ min: 1, max: 8 })).map(([name, n]) => `${name}-${n}`),
  service.map((name) => `${name}-*`),
);
const wait: fc.Arbitrary<Action> = fc
  .constantFrom(700, 6_000, 20_000, 61_000, 310_000)
  .map((ms) => ({ do: 'wait', ms }));
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 5, arbitrary: wait },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('list'), service, endpoints: fc.array(endpoint, { maxLength: 6 }) }),
  },
  { weight: 1, arbitrary: service.map((name): Action => ({ do: 'drop', service: name })) },
  { weight: 1, arbitrary: fc.constant<Action>({ do: 'wipe' }) },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom<Heard>('heard', 'heard', 'unreachable', 'unbelievable')
      .map((heard): Action => ({ do: 'registry', heard })),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('probe'),
      who,
      outcome: fc.constantFrom<Outcome>(
        ...(['pass', 'pass', 'pass', 'refused', 'refused', 'refused', 'timeout', 'wrong-identity', 'silent'] as const),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.boolean().map((alive): Action => ({ do: 'prober', alive })) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(0, 3_000, 120_000), fc.boolean())
      .map(([downFor, inParts]): Action => ({ do: 'restart', downFor, inParts })),
  },
  { weight: 1, arbitrary: fc.constantFrom(6_000, 3_600_000).map((length): Action => ({ do: 'gap', length })) },
  { weight: 1, arbitrary: fc.constantFrom('*', ...SERVICES).map((name): Action => ({ do: 'accept', service: name })) },
) as fc.Arbitrary<Action>;
const histories = fc.array(action, { minLength: 1, maxLength: 25 });

/** Runs a property and shows the shortest history that breaks it. */
function holds(t: Tap, property: fc.IProperty<[Action[]]>, numRuns: number): void {
  const result = fc.check(property, { numRuns: numRuns * THOROUGH });
  if (!result.failed) t.pass(`${result.numRuns} histories`);
  else {
    t.fail(String(result.errorInstance), {
      seed: result.seed,
      path: result.counterexamplePath,
      history: result.counterexample?.[0].map((one) => JSON.stringify(one)),
    });
  }
}
type Tap = Pick<typeof t, 'pass' | 'fail'>;

t.test(
  'at every moment of any history a known service is answered, silence moves nothing, and no corpse stands beside the living',
  async (t) => {
    holds(
      t,
      fc.property(histories, (actions) => {
        const history = new History();
        for (const one of actions) history.run(one);
      }),
      60,
    );
  },
);

t.test('when all is well and quiet, the answer comes to equal what is listed passing', async (t) => {
  holds(
    t,
    fc.property(histories, (actions) => {
      const history = new History();
      for (const one of actions) history.run(one);
      history.run({ do: 'registry', heard: 'heard' });
      history.run({ do: 'prober', alive: true });
      // A zone's guard over live rows has no timed exit: what is listed is well again, what is not has closed.
      if (history.zoneGuarded) history.recover();
      for (const id of history.everyId()) {
        history.run({ do: 'probe', who: id, outcome: history.isListed(id) ? 'pass' : 'refused' });
      }
      history.run({ do: 'wait', ms: guard.maxHold + guard.confirm + check.interval * 3 * 1.2 + check.timeout });
      for (const name of SERVICES) {
        const listed = history.listedPassing(name);
        if (listed.length > 0) equal(history.answer(name), listed, `${name} is answered as listed`);
      }
      const [status] = history.world.resolver.zoneStatus(history.world.now);
      equal(status?.guard, { zone: false, services: [], alarm: false }, 'nothing is held any more (R9)');
    }),
    40,
  );
});

t.test('without a guard, rise or fall intervals are enough', async (t) => {
  const calm = histories.map((actions) => actions.filter((one) => one.do === 'probe' || one.do === 'wait'));
  holds(
    t,
    fc.property(calm, (actions) => {
      const history = new History();
      for (const one of actions) history.run(one);
      for (const id of history.everyId())
        history.run({ do: 'probe', who: id, outcome: id.endsWith('-4') ? 'refused' : 'pass' });
      // A flapping endpoint is held out longer, and at most for 10 minutes (R13).
      const flapped = actions.some((one) => one.do === 'probe' && one.outcome !== 'pass');
      history.run({ do: 'wait', ms: flapped ? 620_000 : check.fall * check.interval * 1.2 + check.timeout });
      for (const name of SERVICES) equal(history.answer(name), [`${name}-1`, `${name}-2`, `${name}-3`], name);
    }),
    20,
  );
});

t.test('every short history of a small service keeps the same promises', async (t) => {
  const steps: readonly Action[] = [
    { do: 'list', service: 'a', endpoints: [] },
    { do: 'list', service: 'a', endpoints: [{ n: 1, state: 'passing', priority: 0 }] },
    { do: 'list', service: 'a', endpoints: [3, 4, 5].map((n) => ({ n, state: 'passing', priority: 0 })) },
    { do: 'list', service: 'a', endpoints: [1, 2].map((n) => ({ n, state: 'critical', priority: 0 })) },
    { do: 'wipe' },
    { do: 'probe', who: 'a-*', outcome: 'refused' },
    { do: 'probe', who: 'a-*', outcome: 'pass' },
    { do: 'registry', heard: 'unreachable' },
    { do: 'registry', heard: 'heard' },
    { do: 'restart', downFor: 1_000, inParts: false },
  ];
  let played = 0;
  const broken: string[] = [];
  for (const first of steps) {
    for (const second of steps) {
      for (const third of steps) {
        const history = new History();
        try {
          for (const one of [first, second, third]) {
            history.run(one);
            history.run({ do: 'wait', ms: 16_000 });
          }
        } catch (error) {
          broken.push(
            `${(error as Error).message} after ${[first, second, third].map((one) => JSON.stringify(one)).join(', ')}`,
          );
        }
        played++;
      }
    }
  }
  t.equal(played, 1000);
  t.same(broken.slice(0, 3), []);
});
