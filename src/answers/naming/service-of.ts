/** Which service a name would be of, if there were one (R21): by the name alone, whatever is listed. */
import type { ZoneSpec } from '../contract.js';
import { TARGETS_LABEL } from './rfc2782.js';

/** Kinds of names of `naming: consul`, of which only the first has services. */
const KINDS = ['service', 'node', 'addr'];

/**
 * The label of the service. `none`: no service has the name, but names of services may be below it. Undefined: it can
 * be no service's. `labels`: those below the zone, lower case, of a name that fits a form.
 */
export function serviceLabelOf(
  naming: ZoneSpec['naming'],
  labels: readonly string[],
): { readonly label: string } | 'none' | undefined {
  return naming === 'consul' ? ofConsul(labels) : ofRfc2782(labels);
}

function ofRfc2782(labels: readonly string[]): { readonly label: string } | 'none' | undefined {
  const last = labels.at(-1);
  if (last === undefined || last === TARGETS_LABEL) return undefined;
  if (!last.startsWith('_')) return { label: last };
  return labels.length === 1 ? 'none' : { label: labels.at(-2)!.slice(1) };
}

function ofConsul(labels: readonly string[]): { readonly label: string } | 'none' | undefined {
  const at = labels.findLastIndex((label) => KINDS.includes(label));
  if (at >= 0 && labels[at] !== KINDS[0]) return undefined;
  // Without a kind it is `_SERVICE._TAG`, with or without a datacenter.
  const own = at < 0 ? labels.slice(0, 2) : labels.slice(0, at);
  const [first, last] = [own[0], own.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  if (own.length === 2 && first.startsWith('_') && last.startsWith('_')) return { label: first.slice(1) };
  return last.startsWith('_') ? 'none' : { label: last };
}
