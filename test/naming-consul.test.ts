import t from 'tap';
import { parseConfig } from '../src/config/load.js';
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

  constructor(
    more: Readonly<Record<string, unknown>> = {},
    others: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
  ) {
    const config = settings({}, { [DOMAIN]: { naming: 'consul', ...more }, ...others });
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

  list(zone = DOMAIN): this {
    const list = { kind: 'list', at: NOW.boot, epoch: 'e', releases: [], rejected: [] } as const;
    const report = { ...list, services: listings(), nodes: listedNodes(), removalsBelievable: true };
    this.resolver.report(zone, 0, report, NOW);
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

t.test('a zone below another owns its names alone, whoever has them too (R21)', async (t) => {
  const both = { datacenters: ['dc1', 'dc2'], agentDns: [{ address: '192.0.2.1', port: 8600 }] };
  const inner = { [`dc2.${DOMAIN}`]: { naming: 'consul', datacenters: ['dc1'] }, [`web.service.${DOMAIN}`]: {} };
  const client = new Client(both, inner).list();
  const alone = new Client(both).list();
  for (const name of ['db.service', 'db.service.dc1', 'web-1.node.dc1', '_db._tcp', 'service', 'nope.service'])
    for (const type of [ASKED_TYPES.A!, ASKED_TYPES.SRV!])
      t.equal(client.ask(name, type), alone.ask(name, type), `${name} is the outer zone's`);
  t.equal(client.ask('geo.query', ASKED_TYPES.A!), 'handed over', 'and asked of its agent');
  for (const name of ['web.service.dc2', 'web-1.node.dc2', 'geo.query.dc2', 'blue.web.service'])
    t.match(
      client.ask(name, ASKED_TYPES.A!),
      /SERVFAIL/,
      `${name} is not, though the outer zone has it and the inner one not yet`,
    );
  client.list(`dc2.${DOMAIN}`);
  t.match(
    client.ask('web.service.dc2', ASKED_TYPES.A!),
    /10\.0\.0\.1/,
    'names below the inner zone, without its datacenter',
  );
  t.match(client.ask('web.service.dc1.dc2', ASKED_TYPES.A!), /10\.0\.0\.1/, 'and with it');
  t.match(client.ask('db.service', ASKED_TYPES.A!), /10\.0\.0\.3/);
});

t.test('a zone that would hide what records of another lead to is refused', async (t) => {
  const load = (inner: string, datacenters: string, naming = 'consul') => {
    const registry = 'registry: { type: file, path: s.yaml }';
    const dcs = naming === 'consul' ? `datacenters: [${datacenters}], ` : '';
    const text = `version: 1\nzones:\n  - { name: consul, naming: ${naming}, ${dcs}${registry} }\n  - { name: ${inner}, ${registry} }\n`;
    try {
      parseConfig(text, '/h.yaml', { stateDir: '/x', runDir: '/x' });
      return 'good';
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const inner of ['dc1.consul', 'node.dc1.consul', 'addr.dc1.consul', 'a.node.dc1.consul'])
    t.match(load(inner, 'dc1'), new RegExp(`zones\\[1\\]\\.name: ${inner} would hide .*leave dc1 out`), inner);
  t.match(load('dc2.consul', 'dc1, dc2'), /leave dc2 out of its datacenters/);
  for (const inner of ['dc2.consul', 'service.consul', 'web.service.consul', 'xdc1.consul', 'node.consul'])
    t.equal(load(inner, 'dc1'), 'good', inner);
  t.equal(load('dc1.consul', '', 'rfc2782'), 'good');
});
