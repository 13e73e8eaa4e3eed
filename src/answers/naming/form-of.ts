import type { SharedZone } from '../shared.js';
import { consulForm } from './consul-form.js';
import { type Form, NAME_FORM, NO_FORM, TARGET_FORM } from './form.js';
import { fitsForm, isTargetName } from './rfc2782.js';

/** R25. `labels` are the offsets of the first `count` labels in `bytes`: those below the zone. On the query path. */
export function formOf(
  zone: Pick<SharedZone, 'naming' | 'datacenters' | 'looksUp'>,
  bytes: Uint8Array,
  labels: Uint16Array,
  count: number,
): Form {
  if (zone.naming === 'consul')
    return consulForm(bytes, labels, count, zone.datacenters ?? NONE, zone.looksUp === true);
  if (!fitsForm(bytes, labels, count)) return NO_FORM;
  return isTargetName(bytes, labels, count) ? TARGET_FORM : NAME_FORM;
}

const NONE: readonly string[] = [];
