/** What the stories of DNS registries share: services that have to be answered all along, and who tells of them. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { DnsFaultProxy } from './dns-fault-proxy.js';
import { DNS_ZONE, DnsServer, type DnsServerOptions } from './dns-server.js';
import { ObservedZone } from './observed-zone.js';

const KNOWN = { orders: ['10.0.0.1', '10.0.0.2', '10.0.0.3'], billing: ['10.0.1.1', '10.0.1.2'] };
const NAMES = [...Object.keys(KNOWN), 'late'].map((service) => `_${service}._tcp.${DNS_ZONE}`);

export const KINDS = {
  axfr: (...servers: string[]) =>
    `type: dns, servers: ${JSON.stringify(servers)}, transfer: axfr, zone: ${DNS_ZONE}, interval: 1s`,
  names: (...servers: string[]) =>
    `type: dns, servers: ${JSON.stringify(servers)}, names: ${JSON.stringify(NAMES)}, interval: 1s`,
};

let folders = 0;
const root = t.testdir({});

/** A server that has the services. */
export async function server(t: Test, options?: DnsServerOptions): Promise<DnsServer> {
  const made = await DnsServer.start(join(root, String(++folders)), options);
  t.teardown(() => made.stop());
  for (const [service, addresses] of Object.entries({ ...KNOWN, late: ['10.0.9.1'] }))
    await made.put(service, addresses);
  return made;
}

export async function proxyTo(t: Test, port: number): Promise<DnsFaultProxy> {
  const proxy = await DnsFaultProxy.start(port);
  t.teardown(() => proxy.stop());
  return proxy;
}

export function open(t: Test, registry: string, softTtl?: string): ObservedZone {
  const zone = new ObservedZone(`{ ${registry} }`, softTtl);
  t.teardown(() => zone.stop());
  return zone;
}

/** A zone that knows the services. */
export async function observe(t: Test, registry: string, softTtl?: string): Promise<ObservedZone> {
  const zone = open(t, registry, softTtl);
  await known(zone);
  return zone;
}

export async function known(zone: ObservedZone): Promise<void> {
  // A server that loads its zone at leisure tells the services one after the other.
  await zone.until('all services', () => zone.addresses('late').join() === '10.0.9.1' && zone.status.state === 'fresh');
  zone.hold(KNOWN);
}

/** What changed at the source is answered, and nothing is amiss. */
export async function recovers(zone: ObservedZone, source: DnsServer): Promise<void> {
  await source.put('late', ['10.0.9.9', '10.0.9.1']);
  await zone.until('the new endpoint', () => zone.addresses('late').includes('10.0.9.9'));
  await zone.until('all is well', () => zone.status.heard && zone.status.state === 'fresh');
}

export function notHeard(zone: ObservedZone, says: RegExp): () => boolean {
  return () => !zone.status.heard && says.test(zone.status.reason ?? '');
}
