import t from 'tap';
import { Resolver } from '../src/resolver/resolver.js';
import { read } from './config-fixture.js';

const ROW = { port: 80, protocol: 'tcp', priority: 0, weight: 1, tags: [], state: 'passing' } as const;

t.test('a report that names what was asked is about all views of its zone (R20, R31)', async (t) => {
  const view = (host: string): string =>
    `  - { name: a.test, listen: ["${host}:53"], registry: { type: file, path: /${host}.yaml } }\n`;
  const config = read(
    `version: 1\nlisten: ["127.0.0.1:53", "127.0.0.2:53"]\nzones:\n${view('127.0.0.1')}${view('127.0.0.2')}`,
  );
  const now = { boot: 1_000, wall: 1.9e12 };
  const probed: string[] = [];
  const resolver = new Resolver(
    config,
    { log: () => undefined, targets: () => undefined, probeNow: (keys) => probed.push(...keys) },
    now,
  );
  const about = { epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
  for (const [i, { key }] of [...resolver.zones].entries()) {
    const rows = ['1', '2'].map((n) => ({ ...ROW, id: n, address: `10.0.${i}.${n}` }));
    resolver.report(key, 0, { kind: 'list', at: 0, services: [{ name: 'orders', rows }], ...about }, now);
  }
  for (const address of ['10.0.0.1', '10.0.1.1'])
    resolver.reported([{ service: 'orders.a.test', address, port: 80, protocol: 'tcp', failure: 'refused' }], now);
  t.same(resolver.desk.counts, { known: 2, unknown: 0, ejections: 0 });
  t.equal(probed.length, 2);
  resolver.reported(
    [{ service: 'a.example', address: '10.0.0.1', port: 80, protocol: 'tcp', failure: 'refused' }],
    now,
  );
  t.same(resolver.desk.counts, { known: 2, unknown: 1, ejections: 0 }, 'a name of no zone of ours');
});
