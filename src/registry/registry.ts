/**
 * The contract of a registry adapter: it reports what it saw, with the time, and decides nothing.
 * "Empty" is a list with no services in it and can never be mistaken for "failed", which is another kind.
 */
import type { BootMs } from '../system/clock.js';

export type Protocol = 'tcp' | 'udp';

/** The registry's own word about an instance (R5). `warning` is answered like `passing`. */
export type RowState = 'passing' | 'warning' | 'critical' | 'draining';

/** A host as its registry names it: a node of Consul. With `naming: consul` nodes have names of their own. */
export interface ListedNode {
  /** As the registry spells it; one name is one node of its datacenter, whatever the case. */
  readonly name: string;
  /** Like a row's. */
  readonly address: string;
  /** Absent: the first of the zone's `datacenters`. */
  readonly datacenter?: string | undefined;
  /** Its metadata, which `naming: consul` gives as TXT records. */
  readonly meta?: Readonly<Record<string, string>> | undefined;
}

/**
 * One endpoint of a service. It is identified by (service, address, port, protocol); `id` is a label (R5).
 * An instance with several ports is several rows.
 */
export interface Row {
  readonly id: string;
  /**
   * Canonical text: dotted quad, or RFC 5952; v4-mapped addresses are given as IPv4. Or a host name, in lower case and
   * without the last dot, which is resolved later (R28).
   */
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  /** Lower-cased label of the port, when it has one. */
  readonly portName?: string | undefined;
  /** 0 to 65535, lower is better. */
  readonly priority: number;
  /** 0 to 65535. */
  readonly weight: number;
  /** Sorted, without duplicates, as the registry spells them. */
  readonly tags: readonly string[];
  /** Failure zone, a label for people. */
  readonly zone?: string | undefined;
  readonly state: RowState;
  /** The host that it is on, from a registry that knows hosts. */
  readonly node?: ListedNode | undefined;
  /**
   * The instance has no address of its own: `address` is its node's. With `naming: consul` the SRV target is then the
   * node's name, otherwise the address's.
   */
  readonly atNode?: boolean | undefined;
  /** R28: the host name that `address` came from. No adapter sets it. */
  readonly host?: string | undefined;
}

/** A check as far as registry data may say it (R18). */
export interface ListedCheck {
  readonly type?: 'tcp' | 'http' | 'https' | 'grpc' | 'none';
  readonly port?: number;
  readonly path?: string;
  readonly tlsName?: string;
  readonly status?: readonly (readonly [number, number])[];
}

/** One service as listed, with its rows collapsed by `collapseRows` (no two share a row key). */
export interface Listing {
  readonly name: string;
  readonly rows: readonly Row[];
  readonly check?: ListedCheck;
}

/** Services of a report: a list of them, or one that makes them as it is walked over (see packed-listings.ts). */
export type Listings = Iterable<Listing> & { readonly length: number };

/** Data that was dropped on the way in, and why. The rest of the report stands. */
export interface Rejected {
  readonly where: string;
  readonly reason: string;
  /** Set where it stands for several that are not told one by one. */
  readonly count?: number;
}

/** A release mark (R9): lets what the guard holds go, when it is newer than the hold. */
export interface ReleaseMark {
  /** A service's name, or `*` for the whole zone. */
  readonly service: string;
  /** Wall time that the mark carries, in ms. A mark from the future counts from when it was first seen. */
  readonly wall: number;
}

export type Report =
  /** Everything that the registry has. What is not in it has left. */
  | {
      readonly kind: 'list';
      readonly at: BootMs;
      /** R7. A file has one for ever. */
      readonly epoch: string;
      readonly revision?: string;
      readonly services: Listings;
      /** Every node, those without a service included. Absent: the registry tells of none but those of its rows. */
      readonly nodes?: readonly ListedNode[] | undefined;
      readonly releases: readonly ReleaseMark[];
      readonly rejected: readonly Rejected[];
      /** R6: false when the reply may be believed for additions and recoveries only. */
      readonly removalsBelievable: boolean;
    }
  /** Only what changed: `services` replace their namesakes, `gone` have left. */
  | {
      readonly kind: 'change';
      readonly at: BootMs;
      readonly epoch: string;
      readonly revision?: string;
      readonly services: Listings;
      readonly gone: readonly string[];
      /** Every node, as in a list. Absent: they are as they were. */
      readonly nodes?: readonly ListedNode[] | undefined;
      readonly releases: readonly ReleaseMark[];
      readonly rejected: readonly Rejected[];
    }
  /** R2: the source says that what we have is still what it has. */
  | { readonly kind: 'confirmed'; readonly at: BootMs }
  | { readonly kind: 'unreachable'; readonly at: BootMs; readonly reason: string }
  | { readonly kind: 'unbelievable'; readonly at: BootMs; readonly reason: string };

export function sameNode(a: ListedNode | undefined, b: ListedNode | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.name !== b.name || a.address !== b.address || a.datacenter !== b.datacenter) return false;
  const [left, right] = [Object.entries(a.meta ?? {}), b.meta ?? {}];
  return left.length === Object.keys(right).length && left.every(([key, value]) => right[key] === value);
}

/** The identity of a row within its service (R5). */
export function rowKey(row: Pick<Row, 'address' | 'port' | 'protocol'>): string {
  return `${row.protocol}|${row.address}|${row.port}`;
}
