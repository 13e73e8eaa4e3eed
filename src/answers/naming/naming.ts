/** What the names of a zone are (R21). */
import type { ListedNode, Row } from '../../registry/registry.js';

/** A name of a service: its labels below the zone, the rows that it narrows to, and the types that it has. */
export interface ServiceName {
  /** Joined by dots. */
  readonly name: string;
  readonly rows: readonly Row[];
  readonly kind: 'service' | 'srv' | 'non-terminal';
}

/** An SRV target that is not the name of the row's address. */
export interface Target {
  /** Equal for rows with the same target. */
  readonly key: string;
  readonly wire: Uint8Array;
  /** Its addresses are not ours to give: it has no additional records. */
  readonly outside?: true;
}

export interface Naming {
  /**
   * All names of a service by the rows that it has, held-back ones included. A service without any row has the names
   * under which a client would ask for it, with no rows (R25).
   */
  serviceNames(label: string, rows: readonly Row[]): ServiceName[];
  /** Names without records, below which names of the service lie and perhaps those of others: they go with the last. */
  sharedNames(rows: readonly Row[]): readonly string[];
  /** Names of an address (R23); the first is the one that its reverse name tells. */
  addressNames(address: Uint8Array): string[];
  /** Names of a host; the first is its SRV target. Empty when it has none. */
  nodeNames(node: ListedNode): string[];
  /** Names without records, below which the node's lie. */
  nodeParents(node: ListedNode): string[];
  /** The name in wire form below which stand targets that have no `target`; undefined when it is too long to exist. */
  readonly targets: Uint8Array | undefined;
  target(row: Row): Target | undefined;
  /** The label under which a service can be answered, or undefined when it has none (R22). */
  fold(name: string): string | undefined;
  /** Names without records that exist whatever is listed. */
  readonly fixed: readonly string[];
  /** The name of the zone's name server. */
  readonly nameserver: string;
}
