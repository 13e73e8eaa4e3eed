/**
 * The names of `naming: rfc2782` (R21 to R23, R25): which names a service has, and which unknown names could be one.
 *
 *     SERVICE                          A, AAAA, SRV
 *     _SERVICE._PROTO                  SRV
 *     _PORTNAME._PROTO.SERVICE         SRV
 *     TAG.SERVICE                      A, AAAA, SRV
 *     _PORTNAME._PROTO.TAG.SERVICE     SRV
 *     10-0-0-1.ip                      A or AAAA
 *     _status                          TXT
 */
import { targetLabel } from '../../dns/addresses.js';
import { isHostLabel, joinName } from '../../dns/names.js';
import type { Protocol, Row } from '../../registry/registry.js';
import { isHost, lower } from './label-bytes.js';
import type { Naming, ServiceName, Target } from './naming.js';

/** Reserved: addresses live below it (R22). */
export const TARGETS_LABEL = 'ip';
export const STATUS_LABEL = '_status';
export const PROTOCOLS: readonly Protocol[] = ['tcp', 'udp'];

/** The names that services share, see `sharedNames`: one list for all of them. */
const TCP = ['_tcp'];
const UDP = ['_udp'];
const BOTH = [...TCP, ...UDP];

/** A label with an underscore before it has one octet less for itself. */
const MAX_UNDERSCORED = 62;

export class Rfc2782Naming implements Naming {
  readonly targets: Uint8Array | undefined;
  readonly fixed = [TARGETS_LABEL];
  readonly nameserver = `ns.${TARGETS_LABEL}`;

  constructor(wire: Uint8Array) {
    this.targets = joinName([TARGETS_LABEL], wire);
  }

  fold(name: string): string | undefined {
    const label = name.toLowerCase();
    return isHostLabel(label) && label !== TARGETS_LABEL ? label : undefined;
  }

  serviceNames(label: string, rows: readonly Row[]): ServiceName[] {
    return serviceNames(label, rows);
  }

  sharedNames(rows: readonly Row[]): readonly string[] {
    const protocols = zoneProtocols(rows);
    if (protocols.length === PROTOCOLS.length) return BOTH;
    return protocols[0] === 'tcp' ? TCP : UDP;
  }

  addressNames(address: Uint8Array): string[] {
    return [`${targetLabel(address)}.${TARGETS_LABEL}`];
  }

  /** Nodes have no names here. */
  nodeNames(): string[] {
    return [];
  }

  nodeParents(): string[] {
    return [];
  }

  target(): Target | undefined {
    return undefined;
  }
}

/**
 * All names of a service by the rows that it has, held-back ones included. A service without any row has the names
 * under which a client would ask for it, with no rows (R25). `_tcp` and `_udp` of the zone itself are shared by
 * services and not among them; `zoneProtocols` tells which of them this one needs.
 */
export function serviceNames(label: string, rows: readonly Row[]): ServiceName[] {
  const names: ServiceName[] = [{ name: label, rows, kind: 'service' }];
  if (label.length <= MAX_UNDERSCORED) {
    for (const protocol of zoneProtocols(rows)) {
      names.push({ name: `_${label}._${protocol}`, rows: only(rows, (row) => row.protocol === protocol), kind: 'srv' });
    }
  }
  portNames(label, rows, names);
  for (const [tag, tagged] of byTag(rows)) {
    names.push({ name: `${tag}.${label}`, rows: tagged, kind: 'service' });
    portNames(`${tag}.${label}`, tagged, names);
  }
  return names;
}

/** The protocols under which `_SERVICE._PROTO` exists. */
export function zoneProtocols(rows: readonly Row[]): readonly Protocol[] {
  return rows.length === 0 ? PROTOCOLS : PROTOCOLS.filter((protocol) => rows.some((row) => row.protocol === protocol));
}

/** Keeps the array itself when nothing falls out, so that equal subsets are compiled once. */
function only(rows: readonly Row[], keep: (row: Row) => boolean): readonly Row[] {
  return whole(rows.filter(keep), rows);
}

function whole(kept: readonly Row[], rows: readonly Row[]): readonly Row[] {
  return kept.length === rows.length ? rows : kept;
}

function portNames(parent: string, rows: readonly Row[], names: ServiceName[]): void {
  for (const protocol of PROTOCOLS) {
    const ports = new Map<string, Row[]>();
    for (const row of rows) {
      if (row.protocol !== protocol || row.portName === undefined) continue;
      const named = ports.get(row.portName);
      if (named !== undefined) named.push(row);
      else if (isHostLabel(row.portName) && row.portName.length <= MAX_UNDERSCORED) ports.set(row.portName, [row]);
    }
    if (ports.size === 0) continue;
    names.push({ name: `_${protocol}.${parent}`, rows: [], kind: 'non-terminal' });
    for (const [portName, named] of ports) {
      names.push({ name: `_${portName}._${protocol}.${parent}`, rows: whole(named, rows), kind: 'srv' });
    }
  }
}

/** Rows by tag, folded to lower case; tags that are no label have no name (R22). */
function byTag(rows: readonly Row[]): Map<string, readonly Row[]> {
  const tags = new Map<string, Row[]>();
  for (const row of rows) {
    for (const spelled of row.tags) {
      const tag = spelled.toLowerCase();
      if (!isHostLabel(tag)) continue;
      const tagged = tags.get(tag);
      if (tagged === undefined) tags.set(tag, [row]);
      else if (tagged.at(-1) !== row) tagged.push(row);
    }
  }
  return new Map([...tags].map(([tag, tagged]) => [tag, whole(tagged, rows)]));
}

const HYPHEN = 0x2d;
const UNDERSCORE = 0x5f;

/**
 * Does an unknown name fit a form (R25)? `labels` are the offsets of the first `count` labels in `bytes`: those below
 * the zone. Reads bytes only: it is on the query path.
 */
export function fitsForm(bytes: Uint8Array, labels: Uint16Array, count: number): boolean {
  if (count < 1 || count > 4) return false;
  const last = labels[count - 1]!;
  if (count === 1) return isProtocol(bytes, last) || isHost(bytes, last + 1, bytes[last]!);
  const before = labels[count - 2]!;
  if (count === 2 && isProtocol(bytes, last)) return isUnderscored(bytes, before);
  if (!isHost(bytes, last + 1, bytes[last]!)) return false;
  if (isTargets(bytes, last)) return count === 2 && isTarget(bytes, before);
  // What is left is `[_PORTNAME.]_PROTO.` or `TAG.` or both before the service.
  let left = count - 1;
  if (!isProtocol(bytes, before) && isHost(bytes, before + 1, bytes[before]!)) left--;
  if (left === 0) return true;
  if (left > 2 || !isProtocol(bytes, labels[left - 1]!)) return false;
  return left === 1 || isUnderscored(bytes, labels[0]!);
}

/** Of a name that fits a form: is it an address's (R23)? */
export function isTargetName(bytes: Uint8Array, labels: Uint16Array, count: number): boolean {
  return count === 2 && isTargets(bytes, labels[1]!);
}

function isUnderscored(bytes: Uint8Array, label: number): boolean {
  return bytes[label + 1] === UNDERSCORE && isHost(bytes, label + 2, bytes[label]! - 1);
}

/** `_tcp` or `_udp`. */
function isProtocol(bytes: Uint8Array, label: number): boolean {
  if (bytes[label] !== 4 || bytes[label + 1] !== UNDERSCORE || lower(bytes[label + 4]!) !== 0x70) return false;
  const first = lower(bytes[label + 2]!);
  const second = lower(bytes[label + 3]!);
  return (first === 0x74 && second === 0x63) || (first === 0x75 && second === 0x64);
}

/** Is the label the one below which addresses live? */
export function isTargets(bytes: Uint8Array, label: number): boolean {
  return bytes[label] === 2 && lower(bytes[label + 1]!) === 0x69 && lower(bytes[label + 2]!) === 0x70;
}

/** Four decimal or eight hexadecimal groups without leading zeros (R23). */
function isTarget(bytes: Uint8Array, label: number): boolean {
  const end = label + 1 + bytes[label]!;
  let groups = 0;
  let digits = 0;
  let value = 0;
  let decimal = true;
  for (let at = label + 1; at <= end; at++) {
    const byte = at === end ? HYPHEN : lower(bytes[at]!);
    if (byte === HYPHEN) {
      if (digits === 0 || digits > 4) return false;
      if (digits > 1 && lower(bytes[at - digits]!) === 0x30) return false;
      if (value > 255 || digits > 3) decimal = false;
      groups++;
      digits = 0;
      value = 0;
      continue;
    }
    const letter = byte >= 0x61 && byte <= 0x66;
    if (!letter && (byte < 0x30 || byte > 0x39)) return false;
    if (letter) decimal = false;
    value = value * 10 + (byte & 15);
    digits++;
  }
  return groups === 8 || (groups === 4 && decimal);
}
