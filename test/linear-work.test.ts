/**
 * What is twice as large is twice the work, and not four times: counted by how often rows are looked at, which no busy
 * machine changes.
 */
import t from 'tap';
import { CatalogRow } from '../src/catalog/row.js';
import type { FailureKind, ProbeResult, Target } from '../src/prober/feed.js';
import type { Listing, Report, Row } from '../src/registry/registry.js';
import { Resolver } from '../src/resolver/resolver.js';
import { read } from './config-fixture.js';

let looks = 0;
for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(CatalogRow.prototype))) {
  const { get } = property;
  if (get === undefined) continue;
  Object.defineProperty(CatalogRow.prototype, name, {
    ...property,
    get(this: CatalogRow) {
      looks++;
      return get.call(this);
    },
  });
}

const SMALL = 300;
const MOST = 2.5;

class Scene {
  readonly #targets = new Map<string, Target>();
  readonly #resolver: Resolver;
  #boot = 1_000;

  /** @param more settings of each zone */
  constructor(zones: readonly string[], more = '') {
    const settings = `registry: { type: file, path: /services.yaml }, check: { type: tcp, rise: 1, fall: 1 }${more}`;
    const config = read(
      `version: 1\nzones:\n${zones.map((name) => `  - { name: ${name}, ${settings} }`).join('\n')}\n`,
    );
    const events = { log: () => undefined, probeNow: () => undefined };
    const targets = (add: readonly Target[], remove: readonly string[]): void => {
      for (const key of remove) this.#targets.delete(key);
      for (const target of add) this.#targets.set(target.key, target);
    };
    this.#resolver = new Resolver(config, { ...events, targets }, this.#now());
  }

  list(zone: string, services: readonly Listing[]): void {
    const now = this.#now();
    const about = { epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
    this.#resolver.report(zone, 0, { kind: 'list', at: now.boot, services, ...about } satisfies Report, now);
  }

  probe(failure?: FailureKind): void {
    const now = this.#now();
    const result = { at: now.boot, interval: 5_000, took: 1, ...(failure === undefined ? {} : { failure }) };
    const results: ProbeResult[] = [...this.#targets.keys()].map((key) => ({ key, ...result }));
    this.#resolver.results(results, now);
  }

  /** One result after the other, with time for what waits. */
  trickle(failure?: FailureKind): void {
    for (const key of this.#targets.keys()) {
      const now = this.#now(2);
      const result = { key, at: now.boot, interval: 5_000, took: 1, ...(failure === undefined ? {} : { failure }) };
      this.#resolver.results([result], now);
      while (this.#resolver.nextWake(this.#now(0)) <= this.#boot) this.#resolver.tick(this.#now(0));
    }
  }

  #now(passed = 1_000) {
    this.#boot += passed;
    return { boot: this.#boot, wall: 1.9e12 + this.#boot };
  }
}

function row(n: number, more: Partial<Row> = {}): Row {
  const address = `10.0.${n >> 8}.${n & 255}`;
  const usual = { protocol: 'tcp', priority: 0, weight: 1, tags: [], state: 'passing' } as const;
  return { id: `e${n}`, address, port: 80, ...usual, ...more };
}

/** So many services at one address, as behind one entrance. */
function crowd(count: number): Listing[] {
  return Array.from({ length: count }, (_, i) => ({ name: `s${i}`, rows: [row(1)] }));
}

const KINDS: Readonly<Record<string, (size: number) => void>> = {
  'services at one address come and are wiped': (size) => {
    const scene = new Scene(['a.test']);
    scene.list('a.test', crowd(size));
    scene.list('a.test', []);
  },
  'half of the services at one address go': (size) => {
    const scene = new Scene(['a.test']);
    scene.list('a.test', crowd(size));
    scene.list('a.test', crowd(size).slice(size / 2));
  },
  'two zones of one address space list the same address for all': (size) => {
    const scene = new Scene(['a.test', 'b.test'], ', addressSpace: lan');
    scene.list('a.test', crowd(size));
    scene.list('b.test', crowd(size));
  },
  'the one endpoint of all services fails': (size) => {
    const scene = new Scene(['a.test']);
    scene.list('a.test', crowd(size));
    scene.probe();
    scene.probe('refused');
  },
  'endpoints of one service have tags and ports of their own': (size) => {
    const rows = Array.from({ length: size }, (_, i) => row(i, { tags: [`t${i}`], portName: `p${i}` }));
    const scene = new Scene(['a.test']);
    scene.list('a.test', [{ name: 's', rows }]);
    scene.probe();
  },
  'results for one service trickle in': (size) => {
    const scene = new Scene(['a.test']);
    scene.list('a.test', [{ name: 's', rows: Array.from({ length: size }, (_, i) => row(i)) }]);
    scene.trickle();
    scene.trickle('refused');
  },
  'results for large services trickle in': (size) => {
    const scene = new Scene(['a.test']);
    const rows = (from: number): Row[] => Array.from({ length: size }, (_, i) => row(from + i));
    scene.list(
      'a.test',
      [0, 1, 2, 3].map((n) => ({ name: `s${n}`, rows: rows(n * size) })),
    );
    scene.trickle();
  },
  'endpoints of one service fail softly': (size) => {
    const scene = new Scene(['a.test']);
    scene.list('a.test', [{ name: 's', rows: Array.from({ length: size }, (_, i) => row(i)) }]);
    scene.probe();
    scene.probe('bad-status');
  },
};

for (const [kind, run] of Object.entries(KINDS)) {
  t.test(kind, async (t) => {
    const cost = (size: number): number => {
      looks = 0;
      run(size);
      return looks;
    };
    const small = cost(SMALL);
    const growth = cost(SMALL * 2) / small;
    t.ok(growth < MOST, `twice as many are ${growth.toFixed(2)} times the work, ${small} looks at rows`);
  });
}
