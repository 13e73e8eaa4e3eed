import t from 'tap';
import { encodeQuery } from '../src/dns/encode-query.js';
import { Resolver } from '../src/resolver/resolver.js';
import { COUNTER_WORDS } from '../src/server/counters.js';
import { NEEDS_CONTROL, Responder } from '../src/server/respond.js';
import { ASKED_TYPES, DOMAIN, golden, listedNodes, listings, showReply } from './consul-names.js';
import { settings } from './scenario-engine/settings.js';

const NOW = { boot: 1_000_000, mono: 1_000_000, wall: 1_770_000_000_000 };
const LOOPBACK = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;

class Client {
  readonly resolver: Resolver;
  readonly #responder: Responder;
  readonly #out = new Uint8Array(65_535);

  constructor(more: Readonly<Record<string, unknown>> = {}) {
    const config = settings({}, { [DOMAIN]: { naming: 'consul', ...more } });
    this.resolver = new Resolver(
      config,
      { log: () => undefined, targets: () => undefined, probeNow: () => undefined },
      NOW,
    );
    const { table } = this.resolver;
    const reader = table.addReader();
    const options = { maxUdp: 1232, tcpMax: 65_535, reader, seed: 1 };
    this.#responder = new Responder(table.share(), new Uint32Array(COUNTER_WORDS), options);
    table.onChange = () => this.#responder.update(table.share());
  }

  list(): this {
    const list = { kind: 'list', at: NOW.boot, epoch: 'e', releases: [], rejected: [] } as const;
    const report = { ...list, services: listings(), nodes: listedNodes(), removalsBelievable: true };
    this.resolver.report(DOMAIN, 0, report, NOW);
    this.#responder.update(this.resolver.table.share());
    return this;
  }

  /** `name` is below the domain. */
  ask(name: string, type: number): string {
    const query = encodeQuery({ id: 1, name: `${name}.${DOMAIN}`, type })!;
    this.#responder.beginBatch();
    const size = this.#responder.respond(query, query.length, LOOPBACK, 0, 'tcp', this.#out);
    this.#responder.endBatch();
    return size === NEEDS_CONTROL ? 'handed over' : showReply(this.#out.slice(0, size));
  }
}

t.test('golden file of the names of consul: as an agent answers them, but where it says so', async (t) => {
  const client = new Client().list();
  for (const { name, type, ours } of golden()) t.equal(client.ask(name, ASKED_TYPES[type]), ours, `${name} ${type}`);
});
