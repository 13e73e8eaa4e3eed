/** Whom to try next: priority, then weight (RFC 2782), those that are held back last. Pure. */
import { type Endpoint, endpointKey } from './endpoint.js';

/**
 * The next of `endpoints`, undefined when all were `tried`. `tried` and `held` take keys of `endpointKey`. What is
 * held back is only taken when nothing else is left, so that holding back never empties a service.
 * `random` returns a number in [0, 1).
 */
export function nextEndpoint(
  endpoints: readonly Endpoint[],
  tried: ReadonlySet<string>,
  held: (key: string) => boolean,
  random: () => number,
): Endpoint | undefined {
  const ready: Endpoint[] = [];
  const waiting: Endpoint[] = [];
  for (const endpoint of endpoints) {
    const key = endpointKey(endpoint);
    if (tried.has(key)) continue;
    const group = held(key) ? waiting : ready;
    const best = group[0]?.priority ?? endpoint.priority;
    if (endpoint.priority > best) continue;
    if (endpoint.priority < best) group.length = 0;
    group.push(endpoint);
  }
  return draw(ready.length > 0 ? ready : waiting, random);
}

/** RFC 2782: by weight; those of weight 0 have a very small chance beside others, and an equal one among themselves. */
function draw(group: readonly Endpoint[], random: () => number): Endpoint | undefined {
  const total = group.reduce((sum, { weight }) => sum + weight, 0);
  const idle = group.filter(({ weight }) => weight === 0);
  if (total === 0) return group[Math.floor(random() * group.length)];
  let left = random() * (total + (idle.length > 0 ? 1 : 0));
  for (const endpoint of group) {
    if (endpoint.weight === 0) continue;
    if (left < endpoint.weight) return endpoint;
    left -= endpoint.weight;
  }
  return idle.length > 0 ? idle[Math.floor(random() * idle.length)] : group.at(-1);
}
