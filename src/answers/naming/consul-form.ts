/** Which names of a zone with `naming: consul` are answered here, by their structure (R21, R25). */
import { FOREIGN_FORM, type Form, NAME_FORM, NO_FORM, TARGET_FORM } from './form.js';
import { isHexAddress, isLabel, isUnderscored, isWord } from './label-bytes.js';

/** The last label that is one of these says what a name is of, as to the agent. */
const SERVICE = 0;
const NODE = 1;
const ADDR = 2;
const KINDS = ['service', 'node', 'addr', 'connect', 'virtual', 'ingress', 'query'] as const;

/**
 * `FOREIGN_FORM` unless it is one of ours: the agent may know more forms, and more datacenters. With `looksUp` it knows
 * more nodes, too: those without a service that was asked for.
 */
export function consulForm(
  bytes: Uint8Array,
  labels: Uint16Array,
  count: number,
  datacenters: readonly string[],
  looksUp: boolean,
): Form {
  let at = count - 1;
  let kind = -1;
  for (; at >= 0; at--) {
    kind = kindOf(bytes, labels[at]!);
    if (kind >= 0) break;
  }
  if (kind < 0) return shorthand(bytes, labels, count, datacenters);
  if (at === 0 || !ofDatacenter(bytes, labels, count - 1 - at, count - 1, datacenters)) return FOREIGN_FORM;
  if (kind === ADDR) return at === 1 && isHexAddress(bytes, labels[0]!) ? TARGET_FORM : NO_FORM;
  if (kind !== SERVICE && (kind !== NODE || looksUp)) return FOREIGN_FORM;
  return areWords(bytes, labels, at) ? NAME_FORM : FOREIGN_FORM;
}

/** `_SERVICE._TAG[.DC]`. */
function shorthand(bytes: Uint8Array, labels: Uint16Array, count: number, datacenters: readonly string[]): Form {
  if (count < 2 || !isUnderscored(bytes, labels[0]!) || !isUnderscored(bytes, labels[1]!)) return FOREIGN_FORM;
  if (!ofDatacenter(bytes, labels, count - 2, count - 1, datacenters)) return FOREIGN_FORM;
  return areWords(bytes, labels, 2) ? NAME_FORM : FOREIGN_FORM;
}

/** `left` labels are left: none, or that of a datacenter that is listed, at `last`. */
function ofDatacenter(
  bytes: Uint8Array,
  labels: Uint16Array,
  left: number,
  last: number,
  datacenters: readonly string[],
): boolean {
  if (left === 0) return datacenters.length > 0;
  if (left > 1) return false;
  for (let i = 0; i < datacenters.length; i++) if (isLabel(bytes, labels[last]!, datacenters[i]!)) return true;
  return false;
}

function areWords(bytes: Uint8Array, labels: Uint16Array, count: number): boolean {
  for (let i = 0; i < count; i++) if (!isWord(bytes, labels[i]!)) return false;
  return true;
}

function kindOf(bytes: Uint8Array, label: number): number {
  for (let i = 0; i < KINDS.length; i++) if (isLabel(bytes, label, KINDS[i]!)) return i;
  return -1;
}
