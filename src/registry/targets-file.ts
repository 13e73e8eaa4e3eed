/** Files in the form of Prometheus file-based service discovery: what `http` reads from a server, in JSON or YAML. */
import { readGroups } from './http-targets.js';
import { AddressPolicy } from './rows.js';
import type { ReadOptions, ReadResult, TargetLabels } from './services-file.js';
import { Pairs } from './tree.js';

export function readTargetsFile(
  root: unknown,
  { file, allowAddresses, limits, filter }: ReadOptions,
  { serviceLabel, port }: TargetLabels,
): ReadResult {
  const groups = plain(root);
  if (!Array.isArray(groups)) {
    return { ok: false, reason: `${file}: expected a list of target groups; [] says that there are none` };
  }
  const policy = new AddressPolicy(allowAddresses, true);
  const result = readGroups(groups, { serviceLabel, port, policy, where: file, limits, filter });
  if (typeof result === 'string') return { ok: false, reason: `${file}: ${result}` };
  const { services, rejected, removalsBelievable } = result;
  const contents = { services, releases: [], rejected };
  const [first] = rejected;
  return {
    ok: true,
    contents:
      removalsBelievable || first === undefined ? contents : { ...contents, doubt: `${first.where}: ${first.reason}` },
  };
}

/**
 * A tree as JSON has it. What is there several times, by an alias of YAML, is one thing here, too.
 * @param known what was made of each list and map
 */
function plain(value: unknown, known = new Map<unknown, unknown>()): unknown {
  if (!Array.isArray(value) && !(value instanceof Pairs)) return value;
  let made = known.get(value);
  if (made === undefined) {
    made = Array.isArray(value)
      ? value.map((item) => plain(item, known))
      : Object.fromEntries(value.items.map(([key, item]) => [key, plain(item, known)]));
    known.set(value, made);
  }
  return made;
}
