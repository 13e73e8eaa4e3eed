import t from 'tap';
import { CatalogRow } from '../src/catalog/row.js';
import type { Observation } from '../src/registry/adapter.js';
import { ListMemory } from '../src/registry/list-memory.js';
import { mergeContents } from '../src/registry/merge.js';
import { parseHere } from '../src/registry/parse.js';
import type { ListedNode, Row } from '../src/registry/registry.js';
import { collapseRows } from '../src/registry/rows.js';
import type { FileContents } from '../src/registry/services-file.js';

const LIMITS = { maxServices: 1000, maxEndpoints: 10_000, maxEndpointsPerService: 5000, maxBody: 1 << 20 };
const NODE: ListedNode = { name: 'web-1', address: '10.0.0.1', datacenter: 'dc1' };

function row(more: Partial<Row> = {}): Row {
  const plain = { id: 'a', address: '10.0.0.1', port: 80, protocol: 'tcp', priority: 0, weight: 1 } as const;
  return { ...plain, tags: [], state: 'passing', ...more };
}

async function parse(text: string): Promise<FileContents> {
  const options = { file: 's.yaml', allowAddresses: [], limits: LIMITS };
  const result = await parseHere({ format: 'yaml', bytes: Buffer.from(text), options });
  if (!result.ok) throw new Error(result.reason);
  return result.contents;
}

t.test('a registry file tells of nodes, and an endpoint without an address is at its node', async (t) => {
  const contents = await parse(`
services:
  web:
    endpoints:
      - { id: a, node: web-1, port: 80 }
      - { id: b, node: web-1, address: 10.1.0.5, port: 80 }
      - { id: c, node: web-9, port: 80 }
nodes:
  web-1: { address: 10.0.0.1, datacenter: DC1, meta: { rack: 7, "rfc1035-text": hello } }
  idle: { address: "fd00::9" }
  wrong: { address: no- }
  odd: { address: 10.0.0.4, color: red }
  multi: { address: 224.0.0.1 }
  dc: { address: 10.0.0.3, datacenter: a.b }
`);
  const node = { name: 'web-1', address: '10.0.0.1', datacenter: 'dc1', meta: { rack: '7', 'rfc1035-text': 'hello' } };
  t.same(contents.services, [
    { name: 'web', rows: [row({ node, atNode: true }), row({ id: 'b', address: '10.1.0.5', node })] },
  ]);
  t.same(contents.nodes, [node, { name: 'idle', address: 'fd00::9' }]);
  t.same(
    contents.rejected.map(({ where, reason }) => `${where} ${reason}`),
    [
      's.yaml:11 address of node "wrong" must be an IP address or a host name, not "no-"',
      's.yaml:12 unknown key "color" in node "odd"',
      's.yaml:13 address 224.0.0.1 is multicast (allowAddresses would permit it)',
      's.yaml:14 datacenter of node "dc" must be a label, not "a.b"',
      's.yaml:7 node must be one of those under nodes, not "web-9"',
    ],
  );
  const other = await parse('services: {}\nnodes:\n  more: { address: 10.0.0.8 }\n');
  t.same(
    mergeContents([contents, other]).nodes?.map(({ name }) => name),
    ['web-1', 'idle', 'more'],
  );
});

t.test('R5: of duplicates one has the node', async (t) => {
  const [only] = collapseRows([row({ state: 'critical', node: NODE }), row({ id: 'b' })]);
  t.same(only?.node, NODE);
});

t.test('a row that moves to another node has changed', async (t) => {
  const known = new CatalogRow(row({ node: NODE, atNode: true }), 0);
  t.equal(known.update(row({ node: { ...NODE }, atNode: true })), false);
  t.equal(known.update(row({ node: { ...NODE, meta: { a: 'b' } }, atNode: true })), true);
  t.equal(known.update(row({ node: { ...NODE, meta: { a: 'c' } }, atNode: true })), true);
  t.equal(known.update(row({ node: { ...NODE, meta: { a: 'c' } } })), true);
  t.equal(known.update(row()), true);
  t.equal(known.node, undefined);
});

t.test('nodes are passed on when they changed, by themselves too', async (t) => {
  const memory = new ListMemory();
  const web = { name: 'web', rows: [row({ node: NODE })] };
  const list = { kind: 'list', epoch: 'e', releases: [], rejected: [], removalsBelievable: true } as const;
  const take = (nodes?: ListedNode[]): Observation =>
    memory.take({ ...list, services: [web, { name: 'other', rows: [] }], ...(nodes === undefined ? {} : { nodes }) });
  t.match(take([NODE]), { kind: 'list', nodes: [NODE] });
  t.same(take([NODE]), { kind: 'confirmed' });
  const moved = { ...NODE, address: '10.0.0.2' };
  t.match(take([moved]), { kind: 'change', services: [], gone: [], nodes: [moved] });
  const change = { kind: 'change', epoch: 'e', services: [], gone: [], releases: [], rejected: [] } as const;
  t.same(memory.takeChange({ ...change, nodes: [moved] }), { kind: 'confirmed' });
  t.same(memory.takeChange(change), { kind: 'confirmed' });
  t.match(memory.takeChange({ ...change, nodes: [] }), { kind: 'change', nodes: [] });
  t.same(take(), { kind: 'confirmed' }, 'none to tell of is as good as none');
  const many = { ...list, services: [], nodes: [NODE, moved, NODE] };
  t.equal(memory.overLimit(many, { ...LIMITS, maxEndpoints: 2 }), '3 nodes, more than limits.maxEndpoints (2)');
  t.equal(memory.overLimit(many, { ...LIMITS, maxEndpoints: 3 }), undefined);
});
