/** The real program with a fake of Consul as its registry, of services s0, s1 and so on without probes. */
import { writeFileSync } from 'node:fs';
import type { Test } from 'tap';
import { FakeConsul } from '../fake-consul.js';
import { freePort, Host } from './program.js';
import { zoneConfig } from './zone-config.js';

/**
 * @param more settings of the registry, as YAML in braces has them
 * @param zone lines of the zone
 */
export async function consulScene(
  t: Test,
  services: number,
  more = '',
  zone: readonly string[] = [],
): Promise<{ fake: FakeConsul; host: Host }> {
  const fake = await FakeConsul.start();
  t.teardown(() => fake.stop());
  fill(fake, services);
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  const registry = `type: consul, address: "${fake.origin}"${more}`;
  writeFileSync(host.config, zoneConfig(host.port, registry, ['check: { type: none }', ...zone]));
  return { fake, host };
}

export function fill(fake: FakeConsul, services: number): void {
  for (let i = 0; i < services; i++)
    fake.set(`s${i}`, { id: `i${i}`, node: `n${i}`, address: `10.0.0.${i + 1}`, status: 'passing' });
}
