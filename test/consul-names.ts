/** A catalog and questions about it that a real agent of Consul and holdfast are asked alike, and answers as text. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import dns2 from 'dns2';
import type { ListedNode, Listing, Row } from '../src/registry/registry.js';
import { collapseRows } from '../src/registry/rows.js';
import { root } from './root.js';

export const DOMAIN = 'consul';

interface Node {
  readonly name: string;
  readonly address: string;
  readonly meta?: Readonly<Record<string, string>>;
}

const NODES: readonly Node[] = [
  { name: 'web-1', address: '10.0.0.1', meta: { rack: 'a7', 'rfc1035-note': 'hello world', 'a=b': 'c`d' } },
  { name: 'Web-2', address: '10.0.0.2' },
  { name: 'db.node.one', address: '10.0.0.3' },
  { name: 'six', address: 'fd00::9' },
  { name: 'idle', address: '10.0.0.5', meta: { owner: 'nobody' } },
  { name: 'under_score', address: '10.0.0.6' },
];

interface Instance {
  readonly service: string;
  readonly node: string;
  readonly port: number;
  readonly address?: string;
  readonly tags?: readonly string[];
  /** Passing, warning. */
  readonly weights?: readonly [number, number];
  readonly state?: 'passing' | 'warning' | 'critical';
}

const INSTANCES: readonly Instance[] = [
  { service: 'web', node: 'web-1', port: 8080, tags: ['v1', 'Blue'], weights: [10, 1] },
  { service: 'web', node: 'Web-2', port: 8080, address: '10.1.0.2', tags: ['blue', 'v1.2', 'udp'] },
  { service: 'web', node: 'six', port: 8081 },
  { service: 'db', node: 'db.node.one', port: 5432, tags: ['master'] },
  { service: 'my_svc', node: 'under_score', port: 90, tags: ['x_y', 'odd tag', 'v1.2', '2'] },
  { service: 'only6', node: 'six', port: 80, address: 'fd00::10' },
  { service: 'multi', node: 'web-1', port: 1 },
  { service: 'multi', node: 'web-1', port: 2, address: '10.0.0.1' },
  { service: 'Api', node: 'Web-2', port: 443 },
  { service: 'proto', node: 'web-1', port: 7, tags: ['tcp'] },
  { service: 'proto', node: 'Web-2', port: 7 },
  { service: 'warned', node: 'web-1', port: 9, weights: [10, 3], state: 'warning' },
  { service: 'mixed', node: 'web-1', port: 11, state: 'critical' },
  { service: 'mixed', node: 'Web-2', port: 11 },
  { service: 'down', node: 'web-1', port: 12, state: 'critical' },
  { service: 'portless', node: 'web-1', port: 0, tags: ['p'] },
  { service: 'portless', node: 'Web-2', port: 0, address: '10.1.0.2', state: 'critical' },
  { service: 'portless', node: 'six', port: 13 },
];

const SERVICES = [
  ...['web.service', 'WEB.Service.DC1', 'nope.service', 'db.service.dc1', 'my_svc.service', 'only6.service'],
  ...['multi.service', 'api.service', 'API.service.dc1', 'warned.service', 'mixed.service', 'down.service'],
  ...['proto.service', 'proto.service.dc1', 'portless.service'],
];
const TAGGED = [
  ...['blue.web.service', 'BLUE.web.service.dc1', 'v1.web.service', 'v1.2.web.service', '2.web.service'],
  ...['nope.web.service', 'blue.nope.service', 'x_y.my_svc.service', 'v1.2.my_svc.service', '2.my_svc.service'],
  ...['tcp.proto.service', 'tcp.web.service', 'udp.web.service', 'service.web.service'],
];
const UNDERSCORED = [
  ...['_web._tcp.service', '_web._tcp.service.dc1', '_WEB._Tcp', '_web._tcp.dc1', '_web._blue.service'],
  ...['_web._blue', '_web._udp.service', '_web._udp', '_web._nope.service', '_nope._tcp', '_proto._tcp.service'],
  ...['_my_svc._x_y.dc1', '_portless._p', '_tcp.service', '_tcp', '_blue.service.dc1'],
];
const HOSTS = [
  ...['web-1.node', 'web-1.node.dc1', 'WEB-2.node', 'db.node.one.node', 'node.one.node', 'one.node.dc1', 'six.node'],
  ...['idle.node', 'idle.node.dc1', 'under_score.node', 'nope.node'],
];
const ADDRESSES = [
  ...['0a000001.addr', '0A000001.Addr.dc1', 'fd000000000000000000000000000009.addr', '0a010002.addr.dc1'],
  ...['0a000005.addr', '0b000001.addr', '0a0000.addr', 'zzzzzzzz.addr', 'a.0a000001.addr'],
];
const STRUCTURE = ['service', 'node.dc1', 'addr', 'dc1'];
const ELSEWHERE = [
  ...['web.connect', 'web.virtual', 'web.ingress', 'geo.query', 'geo.query.dc1', 'web.service.dc9'],
  ...['web-1.node.dc9', 'web.service.dc1.dc', 'foo', 'foo.bar'],
];

/** Names below the domain. */
export const NAMES: readonly string[] = [
  ...SERVICES,
  ...TAGGED,
  ...UNDERSCORED,
  ...HOSTS,
  ...ADDRESSES,
  ...STRUCTURE,
  ...ELSEWHERE,
];
export const ASKED_TYPES = { A: 1, MX: 15, TXT: 16, AAAA: 28, SRV: 33 } as const;

/** Bodies for `PUT /v1/catalog/register`. */
export function registrations(): object[] {
  const nodes = NODES.map(({ name, address, meta }) => ({ Node: name, Address: address, NodeMeta: meta ?? {} }));
  const instances = INSTANCES.map(({ service, node, port, address, tags, weights, state }, i) => {
    const id = `${service}-${i}`;
    return {
      Node: node,
      SkipNodeUpdate: true,
      Service: {
        ID: id,
        Service: service,
        Port: port,
        Tags: tags ?? [],
        ...(address === undefined ? {} : { Address: address }),
        ...(weights === undefined ? {} : { Weights: { Passing: weights[0], Warning: weights[1] } }),
      },
      Check: { CheckID: `check-${id}`, Name: 'health', ServiceID: id, Status: state ?? 'passing' },
    };
  });
  return [...nodes, ...instances];
}

export function listedNodes(): ListedNode[] {
  return NODES.map((node) => ({ ...node, datacenter: 'dc1' }));
}

/** The same as a registry reports it. */
export function listings(): Listing[] {
  const nodes = new Map(listedNodes().map((node) => [node.name, node]));
  const services = new Map<string, Row[]>();
  for (const [i, { service, node, port, address, tags, weights, state = 'passing' }] of INSTANCES.entries()) {
    const rows = services.get(service) ?? [];
    services.set(service, rows);
    const host = nodes.get(node)!;
    const [passing, warning] = weights ?? [1, 1];
    rows.push({
      id: `${service}-${i}`,
      address: address ?? host.address,
      port,
      protocol: 'tcp',
      priority: 1,
      weight: state === 'warning' ? warning : passing,
      tags: tags ?? [],
      state,
      node: host,
      ...(address === undefined ? { atNode: true } : {}),
    });
  }
  return [...services].map(([name, rows]) => ({ name, rows: collapseRows(rows) }));
}

const RCODES: Readonly<Record<number, string>> = { 0: 'NOERROR', 2: 'SERVFAIL', 3: 'NXDOMAIN', 5: 'REFUSED' };

/**
 * What a reply says, in an order of its own: names below the domain, without TTL, the SOA, and the TXT records with
 * which the agent fills additional sections.
 */
export function showReply(bytes: Uint8Array): string {
  const packet = dns2.Packet.parse(Buffer.from(bytes));
  const answers = packet.answers.map((one) => showRecord(one as Shown));
  const additionals = (packet.additionals as unknown as Shown[])
    .filter(({ type }) => type === ASKED_TYPES.A || type === ASKED_TYPES.AAAA)
    .map((one) => `+ ${below(one.name)} ${showRecord(one)}`);
  const { rcode } = packet.header as unknown as { rcode: number };
  return [RCODES[rcode] ?? `rcode ${rcode}`, ...answers.sort(), ...new Set(additionals.sort())].join('; ');
}

interface Shown {
  readonly name: string;
  readonly type: number;
  readonly address?: string;
  readonly priority?: number;
  readonly weight?: number;
  readonly port?: number;
  readonly target?: string;
  readonly data?: unknown;
}

function showRecord({ type, address, priority, weight, port, target, data }: Shown): string {
  if (type === ASKED_TYPES.A) return `A ${address}`;
  if (type === ASKED_TYPES.AAAA) return `AAAA ${normalSix(address ?? '')}`;
  if (type === ASKED_TYPES.SRV) return `SRV ${priority} ${weight} ${port} ${below(target ?? '')}`;
  if (type === ASKED_TYPES.TXT) return `TXT ${JSON.stringify(data)}`;
  return `TYPE${type}`;
}

function normalSix(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

function below(name: string): string {
  return name
    .toLowerCase()
    .replace(/\.$/, '')
    .replace(new RegExp(`\\.${DOMAIN}$`), '');
}

/** A line of an agent's answer, and where holdfast's differs on purpose a second one. */
export interface GoldenLine {
  readonly name: string;
  readonly type: keyof typeof ASKED_TYPES;
  readonly agent: string;
  readonly ours: string;
}

export function golden(): GoldenLine[] {
  const lines: GoldenLine[] = [];
  for (const line of readFileSync(join(root, 'test/golden/names-consul.txt'), 'utf8').split('\n')) {
    const differs = /^ {2}holdfast = (.*)$/.exec(line);
    if (differs) lines.push({ ...lines.pop()!, ours: differs[1]! });
    const [, name, type, agent] = /^(\S+) ([A-Z]+) = (.*)$/.exec(line) ?? [];
    if (name === undefined || type === undefined || agent === undefined) continue;
    lines.push({ name, type: type as GoldenLine['type'], agent, ours: agent });
  }
  return lines;
}
