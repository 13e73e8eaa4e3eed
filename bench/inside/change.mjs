/**
 * What a change to one service costs the control thread, beside so many other endpoints: catalog, guard, health and
 * answers, to the store that publishes it. Prints JSON.
 *
 *   change.mjs CONFIG ENDPOINTS
 */
import { loadConfig } from '../../src/config/load.ts';
import { Resolver } from '../../src/resolver/resolver.ts';
import { addressOf, PORT, serviceName, ZONE } from '../lib/data.mjs';
import { median } from '../lib/numbers.mjs';

const EACH = 10;
const CHANGES = 2000;
const WARM_UP = 500;

const [file, endpoints] = process.argv.slice(2);
const services = Number(endpoints) / EACH;
const now = { boot: 1e6, wall: 1.7e12 };
const { config } = loadConfig(file);
const resolver = new Resolver(config, { log: () => undefined, targets: () => undefined }, now);
resolver.table.onChange = () => resolver.table.share();

const base = { at: now.boot, epoch: 'file', releases: [], rejected: [] };
const all = Array.from({ length: services }, (_, s) => listing(s, 10));
resolver.report(ZONE, 0, { ...base, kind: 'list', services: all, removalsBelievable: true }, now);

const took = [];
const before = resolver.table.size;
for (let i = 0; i < CHANGES + WARM_UP; i++) {
  const one = listing((i * 7919) % services, 11 + (i % 50));
  const began = performance.now();
  resolver.report(ZONE, 0, { ...base, kind: 'change', services: [one], gone: [] }, now);
  if (i >= WARM_UP) took.push((performance.now() - began) * 1000);
}
const { names } = resolver.table.size;
process.stdout.write(`${JSON.stringify({ names, grown: names - before.names, us: median(took) })}\n`);

function listing(s, weight) {
  const rows = Array.from({ length: EACH }, (_, i) => ({
    id: `${serviceName(s)}-${i}`,
    address: addressOf(s * EACH + i + 1),
    port: PORT,
    protocol: 'tcp',
    priority: 0,
    weight,
    tags: [],
    state: 'passing',
  }));
  return { name: serviceName(s), rows };
}
