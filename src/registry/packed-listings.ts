/**
 * Services of a large list as bytes: what they take as objects is ten times as much. Each part is a JSON list of
 * services, a service a list by place, and so is a row; what nearly no row has is left out at its end.
 */
import type { ListedCheck, ListedNode, Listing, Listings, Row } from './registry.js';
import { isHostName, ROW_STATES } from './rows.js';

/** Rows in one part: a few milliseconds to parse. */
const ROWS_A_PART = 2500;

type PackedRow = readonly [
  id: string,
  address: string,
  port: number,
  weight: number,
  priority: number,
  state: number,
  udp: 0 | 1,
  portName: string | 0,
  zone: string | 0,
  tags: readonly string[] | 0,
  node: ListedNode | 0,
  atNode: 0 | 1,
];
/** The places from here on are left out where they and all behind them are 0. */
const ALWAYS = 4;
type PackedListing = readonly [name: string, rows: readonly PackedRow[], check?: ListedCheck];

/** What has to be known of services before they are looked at one by one. */
export interface ListingFacts {
  readonly services: number;
  readonly rows: number;
  /** The service with the most rows. */
  readonly largest: { readonly name: string; readonly rows: number };
  /** R28: some row has a host name in the place of an address. */
  readonly hosts: boolean;
}

/** Packed services, as they cross between threads. */
export interface Packed {
  readonly parts: readonly Uint8Array[];
  readonly facts: ListingFacts;
}

/** Unpacks as it is walked over, a part at a time. */
export class PackedListings implements Listings, Packed {
  readonly parts: readonly Uint8Array[];
  readonly facts: ListingFacts;

  constructor({ parts, facts }: Packed) {
    this.parts = parts;
    this.facts = facts;
  }

  get length(): number {
    return this.facts.services;
  }

  *[Symbol.iterator](): Iterator<Listing> {
    for (const part of this.parts) {
      for (const packed of JSON.parse(textOf(part)) as PackedListing[]) yield unpack(packed);
    }
  }
}

/** Packs services one after the other. */
export class Packer {
  readonly #parts: Uint8Array[] = [];
  #texts: string[] = [];
  #pending = 0;
  #services = 0;
  #rows = 0;
  #largest = { name: '', rows: 0 };
  #hosts = false;

  add(listing: Listing): void {
    const { name, rows } = listing;
    this.#texts.push(packedText(listing));
    this.#services++;
    this.#rows += rows.length;
    if (rows.length > this.#largest.rows) this.#largest = { name, rows: rows.length };
    this.#hosts ||= rows.some(({ address }) => isHostName(address));
    this.#pending += rows.length + 1;
    if (this.#pending >= ROWS_A_PART) this.#endPart();
  }

  end(): Packed {
    if (this.#pending > 0) this.#endPart();
    const { name, rows } = this.#largest;
    const facts = { services: this.#services, rows: this.#rows, largest: { name, rows }, hosts: this.#hosts };
    return { parts: this.#parts, facts };
  }

  #endPart(): void {
    const text = Buffer.from(`[${this.#texts.join(',')}]`);
    // A small buffer is a part of a larger one, which cannot be handed over.
    this.#parts.push(Uint8Array.from(text));
    this.#texts = [];
    this.#pending = 0;
  }
}

export function pack(services: Listings): Packed {
  if (services instanceof PackedListings) return services;
  const packer = new Packer();
  for (const listing of services) packer.add(listing);
  return packer.end();
}

export function factsOf(services: Listings): ListingFacts {
  if (services instanceof PackedListings) return services.facts;
  let rows = 0;
  let hosts = false;
  let largest = { name: '', rows: 0 };
  for (const listing of services) {
    rows += listing.rows.length;
    if (listing.rows.length > largest.rows) largest = { name: listing.name, rows: listing.rows.length };
    hosts ||= listing.rows.some(({ address }) => isHostName(address));
  }
  return { services: services.length, rows, largest, hosts };
}

/** The same text for the same service, however its parts are spelled. */
export function packedText({ name, rows, check }: Listing): string {
  return JSON.stringify(check === undefined ? [name, rows.map(packRow)] : [name, rows.map(packRow), check]);
}

function packRow(row: Row): unknown[] {
  const { id, address, port, weight, priority, state, protocol, portName, zone, tags, node, atNode } = row;
  const packed: unknown[] = [
    id,
    address,
    port,
    weight,
    priority,
    ROW_STATES.indexOf(state),
    protocol === 'udp' ? 1 : 0,
  ];
  packed.push(portName ?? 0, zone ?? 0, tags.length === 0 ? 0 : tags, node ?? 0, atNode === true ? 1 : 0);
  while (packed.length > ALWAYS && packed.at(-1) === 0) packed.pop();
  return packed;
}

function unpack([name, rows, check]: PackedListing): Listing {
  return check === undefined ? { name, rows: rows.map(unpackRow) } : { name, rows: rows.map(unpackRow), check };
}

function unpackRow(packed: PackedRow): Row {
  const [id, address, port, weight, priority = 0, state = 0, udp = 0, portName, zone, tags, node, atNode] = packed;
  return {
    id,
    address,
    port,
    protocol: udp === 1 ? 'udp' : 'tcp',
    priority,
    weight,
    tags: tags || NO_TAGS,
    state: ROW_STATES[state]!,
    ...(portName ? { portName } : {}),
    ...(zone ? { zone } : {}),
    ...(node ? { node } : {}),
    ...(atNode ? { atNode: true } : {}),
  };
}

const NO_TAGS: readonly string[] = [];

function textOf(part: Uint8Array): string {
  return Buffer.from(part.buffer, part.byteOffset, part.length).toString();
}
