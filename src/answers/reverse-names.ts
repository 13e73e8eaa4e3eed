/**
 * Reverse names of targets (R23). They stand outside every zone, so one name may have a record from several zones;
 * a reader gives the first that the client may ask.
 */
import { reverseName } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { record } from '../dns/records.js';
import type { SetRef } from './entry.js';
import { singleSet } from './sets.js';
import { REVERSE_ZONE, SET_ZONE } from './shared.js';
import type { AnswerTable } from './table.js';

/** Adds or replaces the zone's record at the address's reverse name. */
export function putReverse(
  table: AnswerTable,
  zone: number,
  address: Uint8Array,
  target: Uint8Array,
  ttl: number,
): void {
  const name = reverseName(address);
  const others = table.inlineSets(REVERSE_ZONE, name).filter(({ set }) => zoneOf(set) !== zone);
  const sets: SetRef[] = [...others, { type: TYPE.PTR, set: singleSet(record(TYPE.PTR, ttl, target), zone) }];
  write(table, name, sets);
}

/** Whether the address's reverse name has a record of the zone. */
export function hasReverse(table: AnswerTable, zone: number, address: Uint8Array): boolean {
  return table.inlineSets(REVERSE_ZONE, reverseName(address)).some(({ set }) => zoneOf(set) === zone);
}

/** Takes the zone's record away, and the name with its last one. */
export function removeReverse(table: AnswerTable, zone: number, address: Uint8Array): void {
  const name = reverseName(address);
  drop(table, zone, name, table.inlineSets(REVERSE_ZONE, name));
}

/** Takes all the zone's records away. */
export function removeAllReverse(table: AnswerTable, zone: number): void {
  table.names(REVERSE_ZONE, (name, sets) => drop(table, zone, name, sets));
}

function drop(table: AnswerTable, zone: number, name: Uint8Array, sets: readonly InlineSet[]): void {
  const left = sets.filter(({ set }) => zoneOf(set) !== zone);
  if (left.length === 0) table.delete(REVERSE_ZONE, name);
  else if (left.length < sets.length) write(table, name, left);
}

type InlineSet = { type: number; set: Uint8Array };

function write(table: AnswerTable, name: Uint8Array, sets: readonly SetRef[]): void {
  const byZone =
    sets.length < 2 ? sets : [...sets].sort((a, b) => zoneOf(a.set as Uint8Array) - zoneOf(b.set as Uint8Array));
  // An entry counts its sets in one byte; more zones than that with one address see the first 255.
  table.set(REVERSE_ZONE, name, 0, byZone.slice(0, 255));
}

function zoneOf(set: Uint8Array): number {
  return new Uint16Array(set.buffer, set.byteOffset, 8)[SET_ZONE]!;
}
