/** The names of a zone's hosts (R21, `naming: consul`): addresses and metadata, and the names between those with dots. */
import { addressBytes } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { joinName, nameToWire } from '../dns/names.js';
import { addressType, record, txtRdata } from '../dns/records.js';
import type { ListedNode } from '../registry/registry.js';
import type { SetRef } from './entry.js';
import type { Place } from './service-entries.js';
import { recordsSet, singleSet } from './sets.js';

interface Entry {
  node: ListedNode | undefined;
  /** Nodes whose names lie below. */
  children: number;
}

export class NodeEntries {
  readonly #place: Place;
  readonly #status: number;
  /** By name below the zone, lower case. */
  readonly #entries = new Map<string, Entry>();

  /** `status`: the slot whose EDE goes with their answers. */
  constructor(place: Place, status: number) {
    this.#place = place;
    this.#status = status;
  }

  /** Adds or replaces a node. Of two with one name the later one has it. */
  put(node: ListedNode): void {
    const { naming } = this.#place;
    for (const name of naming.nodeNames(node)) {
      const entry = this.#entry(name);
      if (entry.node === undefined) for (const parent of this.#parents(node, name)) this.#count(parent, 1);
      entry.node = node;
      this.#write(name, entry);
    }
  }

  remove(node: ListedNode): void {
    for (const name of this.#place.naming.nodeNames(node)) {
      const entry = this.#entry(name);
      if (entry.node === undefined) continue;
      for (const parent of this.#parents(node, name)) this.#count(parent, -1);
      entry.node = undefined;
      this.#write(name, entry);
    }
  }

  #parents(node: ListedNode, name: string): string[] {
    return this.#place.naming.nodeParents(node).filter((parent) => name.toLowerCase().endsWith(`.${parent}`));
  }

  #entry(name: string): Entry {
    const key = name.toLowerCase();
    let entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, (entry = { node: undefined, children: 0 }));
    return entry;
  }

  #count(name: string, change: number): void {
    const entry = this.#entry(name);
    entry.children += change;
    this.#write(name, entry);
  }

  #write(name: string, { node, children }: Entry): void {
    const { table, zone, wire } = this.#place;
    const full = joinName(name.split('.'), wire);
    if (full === undefined) return;
    if (node !== undefined) table.set(zone, full, this.#status, this.#sets(node));
    else if (children > 0) table.set(zone, full, this.#status, []);
    else {
      table.delete(zone, full);
      this.#entries.delete(name.toLowerCase());
    }
  }

  #sets({ address, meta }: ListedNode): SetRef[] {
    const { ttl } = this.#place;
    const bytes = addressBytes(address);
    const sets: SetRef[] = [];
    if (bytes !== undefined) {
      const type = addressType(bytes);
      sets.push({ type, set: singleSet(record(type, ttl, bytes)) });
    } else {
      const alias = nameToWire(address);
      // A host name: where both types lead is told by it.
      if (alias !== undefined) {
        for (const type of [TYPE.A, TYPE.AAAA]) sets.push({ type, set: singleSet(record(TYPE.CNAME, ttl, alias)) });
      }
    }
    const texts = Object.entries(meta ?? {}).map(([key, value]) =>
      record(TYPE.TXT, ttl, txtRdata([metaText(key, value)])),
    );
    if (texts.length > 0) sets.push({ type: TYPE.TXT, set: recordsSet(texts) });
    return sets;
  }
}

/** An attribute as RFC 1464 writes it; as the agent does, a key that begins with `rfc1035-` gives its text alone. */
export function metaText(key: string, value: string): string {
  if (key.toLowerCase().startsWith('rfc1035-')) return value;
  const name = key
    .replace(/[`=]/g, '`$&')
    .replace(/^ +/, (spaces) => '` '.repeat(spaces.length))
    .replace(/ +$/, (spaces) => '` '.repeat(spaces.length));
  return `${name}=${value.replace(/`/g, '``')}`;
}
