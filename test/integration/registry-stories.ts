import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type ConsulOptions, ConsulServer, findConsul } from './consul-server.js';
import { EtcdServer, etcdVersion } from './etcd-server.js';
import { FaultProxy } from './fault-proxy.js';
import { ObservedZone } from './observed-zone.js';
import { TargetsServer } from './targets-server.js';

/** A registry with a place of its own for one story. */
export interface Source {
  readonly port: number;
  /** Its section of the configuration, without braces. */
  registry(origin: string): string;
  put(service: string, addresses: readonly string[]): Promise<unknown>;
  /** All services at once. */
  empty(): Promise<unknown>;
}

export interface Kind {
  readonly name: string;
  /** Why its stories cannot be told here. */
  readonly missing?: string;
  /** Services that it lists of its own, one endpoint each. */
  readonly own?: number;
  /** Requests a second while it is quiet. */
  readonly asks?: number;
  /** For so long after a change it may be asked more, in ms. */
  readonly settles?: number;
  source(t: Test): Promise<Source>;
}

export const KNOWN = { orders: ['10.0.0.1', '10.0.0.2', '10.0.0.3'], billing: ['10.0.1.1', '10.0.1.2'] };

const version = etcdVersion();
const etcdMissing = version === undefined ? { missing: 'no etcd here' } : {};
if (version === undefined) console.error('skipped: the stories of etcd (no etcd on the PATH; Debian: etcd-server)');

let shared: Promise<EtcdServer> | undefined;
let places = 0;
const folder = t.testdir({});
t.teardown(async () => (await shared)?.stop());

/** The one that stories share which neither stop nor break it. */
export function sharedEtcd(): Promise<EtcdServer> {
  shared ??= EtcdServer.start(join(folder, 'etcd'));
  return shared;
}

export const etcd: Kind = {
  name: 'etcd',
  ...etcdMissing,
  source: async () => etcdSource(await sharedEtcd(), `/place-${++places}`),
};

export function etcdSource(server: EtcdServer, prefix: string): Source {
  const instances = new Map<string, number>();
  const key = (service: string, i: number): string => `${prefix}/${service}/${i}`;
  return {
    port: server.port,
    registry: (origin) => `type: etcd, endpoints: ["${origin}"], layout: plain, prefix: ${prefix}`,
    put: async (service, addresses) => {
      for (const [i, address] of addresses.entries()) await server.put(key(service, i), { address, port: 80 });
      for (let i = addresses.length; i < (instances.get(service) ?? 0); i++) await server.delete(key(service, i));
      instances.set(service, addresses.length);
    },
    empty: async () => {
      await server.deleteBelow(`${prefix}/`);
      instances.clear();
    },
  };
}

/** An etcd that this story may stop and break. */
export async function ownEtcd(t: Test): Promise<EtcdServer> {
  const server = await EtcdServer.start(join(t.testdir({}), 'etcd'));
  t.teardown(() => server.stop());
  return server;
}

const consulMissing = findConsul() === undefined ? { missing: 'no Consul here' } : {};
if (consulMissing.missing !== undefined) {
  console.error(
    'skipped: the stories of Consul (none on the PATH, and none built by test/integration/consul-build.ts)',
  );
}

/** Servers that no story has at present. One serves one story at a time: Consul has no places for several. */
const idle: ConsulServer[] = [];
let started = 0;
t.teardown(() => Promise.all(idle.map((server) => server.stop())));

export const consul: Kind = {
  name: 'consul',
  ...consulMissing,
  own: 1,
  asks: 4,
  source: async (t) => {
    const server = idle.pop() ?? (await ConsulServer.start(join(folder, `consul-${++started}`)));
    t.teardown(async () => {
      await server.put('catalog/deregister', { Node: CONSUL_NODE });
      idle.push(server);
    });
    return consulSource(server);
  },
};

/** R33: the same, of which nothing is known but what is asked for. */
export const onDemand: Kind = {
  ...consul,
  name: 'consul on demand',
  own: 0,
  asks: 6,
  settles: 8000,
  source: async (t) => {
    const source = await consul.source(t);
    return { ...source, registry: (origin) => `type: consul, address: "${origin}", mirror: asked` };
  },
};

export const CONSUL_NODE = 'elsewhere';

/** Registers at the catalog, with a check each. */
export function consulSource(server: ConsulServer): Source {
  const instances = new Map<string, number>();
  const deregister = (service: string, i: number): Promise<unknown> =>
    server.put('catalog/deregister', { Node: CONSUL_NODE, ServiceID: `${service}-${i}` });
  return {
    port: server.port,
    registry: (origin) => `type: consul, address: "${origin}"`,
    put: async (service, addresses) => {
      for (const [i, address] of addresses.entries()) {
        const id = `${service}-${i}`;
        await server.register({
          Node: CONSUL_NODE,
          Address: '10.255.0.1',
          Service: { ID: id, Service: service, Address: address, Port: 80 },
          Check: { CheckID: `service:${id}`, Name: 'test', Status: 'passing', ServiceID: id },
        });
      }
      for (let i = addresses.length; i < (instances.get(service) ?? 0); i++) await deregister(service, i);
      instances.set(service, addresses.length);
    },
    empty: async () => {
      await server.put('catalog/deregister', { Node: CONSUL_NODE });
      instances.clear();
    },
  };
}

/** Consul that this story may stop and break. */
export async function ownConsul(t: Test, options: ConsulOptions = {}): Promise<ConsulServer> {
  const server = await ConsulServer.start(join(folder, `consul-${++started}`), options);
  t.teardown(() => server.stop());
  return server;
}

export const http: Kind = {
  name: 'http',
  source: async (t) => {
    const server = await TargetsServer.start();
    t.teardown(() => server.stop());
    return httpSource(server);
  },
};

export function httpSource(server: TargetsServer): Source {
  return {
    port: server.port,
    registry: (origin) => `type: http, url: "${origin}/sd", interval: 1s`,
    put: async (service, addresses) =>
      server.services.set(
        service,
        addresses.map((address) => `${address}:80`),
      ),
    empty: async () => server.services.clear(),
  };
}

/** A zone that knows its services, behind a proxy that has not broken yet. */
export async function ready(
  t: Test,
  source: Source,
  more = '',
  softTtl?: string,
): Promise<{ zone: ObservedZone; proxy: FaultProxy }> {
  const proxy = await FaultProxy.start(source.port);
  t.teardown(() => proxy.stop());
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  const zone = open(t, `{ ${source.registry(proxy.origin)}${more} }`, softTtl);
  await known(zone);
  return { zone, proxy };
}

export function open(t: Test, registry: string, softTtl?: string): ObservedZone {
  const zone = new ObservedZone(registry, softTtl);
  t.teardown(() => zone.stop());
  return zone;
}

/** Asks for what is known a thousand times a second until `end`, which says that no answer was another. */
export function askThousandASecond(t: Test, zone: ObservedZone): { end(after: string): void } {
  const services = Object.keys(KNOWN) as (keyof typeof KNOWN)[];
  let [asked, wrong] = [0, 0];
  const begun = performance.now();
  const timer = setInterval(() => {
    for (; asked < performance.now() - begun; asked++) {
      const service = services[asked % services.length]!;
      if (zone.addresses(service).join() !== KNOWN[service].join()) wrong++;
    }
  }, 2);
  t.teardown(() => clearInterval(timer));
  return {
    end: (after) => {
      clearInterval(timer);
      t.equal(wrong, 0, `${after}, ${asked} queries`);
    },
  };
}

export async function known(zone: ObservedZone): Promise<void> {
  await zone.until('the first list', () => zone.status.state === 'fresh');
  for (const [service, addresses] of Object.entries(KNOWN)) {
    await zone.until(service, () => zone.addresses(service).join() === addresses.join());
  }
  zone.hold(KNOWN);
}

export function notHeard(zone: ObservedZone, says: RegExp): () => boolean {
  return () => !zone.status.heard && says.test(zone.status.reason ?? '');
}

/** What became new at the source is answered, and nothing is amiss. */
export async function recovers(zone: ObservedZone, source: Source): Promise<string> {
  const service = `late-${++recoveries}`;
  await source.put(service, ['10.0.9.9']);
  await zone.until('the new service', () => zone.addresses(service)[0] === '10.0.9.9');
  await zone.until('all is well', () => zone.status.heard && zone.status.state === 'fresh');
  return service;
}
let recoveries = 0;

/** Knocks at the registry while it was broken: a few at first, then fewer and fewer. */
export function noStorm(t: Test, zone: ObservedZone, knocks: number, seconds: number): void {
  t.ok(knocks <= 8 + 2 * seconds, `${knocks} requests in ${seconds.toFixed(1)} s`);
  t.ok(zone.reports.length < 1000, `${zone.reports.length} reports`);
}
