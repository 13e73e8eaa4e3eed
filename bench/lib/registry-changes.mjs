/** Changes of a registry, and how long each takes to be in the answers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './ask.mjs';
import { ZONE } from './data.mjs';

export const NODES = 500;
export const QUIET_MS = 10_500;

export const instance = (service, i, more = {}) => ({
  service: `s${service}`,
  id: `s${service}-${i}`,
  node: `n${service % NODES}`,
  address: `10.${(service >> 8) & 255}.${service & 255}.${i + 1}`,
  status: 'passing',
  ...more,
});

/** All instances of so many services. */
export function* instances(services, each) {
  for (let service = 0; service < services; service++) for (let i = 0; i < each; i++) yield instance(service, i);
}

/** What may happen to a service of Consul, and how many of its endpoints are answered then. */
export const KINDS = {
  'a check becomes critical': (consul, service, each) => [
    () => consul.set(instance(service, 0, { status: 'critical' })),
    each - 1,
  ],
  'a check passes again': (consul, service, each) => [
    () => consul.set(instance(service, 0)),
    each,
    () => consul.set(instance(service, 0, { status: 'critical' })),
    each - 1,
  ],
  'an endpoint comes, with a check that passes': (consul, service, each) => [
    () => consul.set(instance(service, each)),
    each + 1,
  ],
  'an endpoint goes': (consul, service, each) => [() => consul.remove(`s${service}`, `s${service}-0`), each - 1],
  'an endpoint comes without a check': (consul, service, each) => [
    () => consul.set(instance(service, each, { status: undefined })),
    each + 1,
  ],
};

/**
 * Changes a service. Resolves with how long that took to be in the answers, in ms, from when the registry has it.
 * @param each its endpoints before
 * @param asked it has been asked all the time before
 */
export async function change(port, [run, answers, before, answersBefore], service, each, quietMs = 0, asked = false) {
  if (before !== undefined) {
    await before();
    await answered(port, service, answersBefore);
  }
  const end = performance.now() + quietMs;
  while (performance.now() < end) {
    if (asked) await answered(port, service, answersBefore ?? each);
    await sleep(Math.min(500, Math.max(0, end - performance.now())));
  }
  const began = performance.now();
  await run();
  await answered(port, service, answers);
  return performance.now() - began;
}

export async function answered(port, service, answers, timeout = 120_000) {
  const accept = (reply) => reply.answers === answers;
  await ask(port, `s${service}.${ZONE}`, 'A', { timeout, retry: 5, accept });
}
