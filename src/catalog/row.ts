import { type ListedNode, type Protocol, type Row, type RowState, sameNode } from '../registry/registry.js';
import type { Ms, WallMs } from '../system/clock.js';

/** A point on a zone's heard clock (R4): time that passed while its registry was heard. */
export type HeardMs = number;

/** What probing says of a row: the columns of R10's table. */
export type Column = 'passes' | 'fails' | 'no-word';

/** Answerable rows at a moment, before a loss: in all, and of each priority. */
export interface Strength {
  readonly all: number;
  readonly zone: number;
  readonly byPriority: ReadonlyMap<number, number>;
}

/** R8: the row was answered until it left or flipped to critical. */
export interface Loss {
  readonly at: HeardMs;
  /** As things stood just before. */
  readonly before: Strength;
}

/** R8, R9: the guard keeps the row where it was. */
export interface Hold {
  /** Whose guard. An epoch's hold is a service's that a quiet minute does not end (R7). */
  scope: 'service' | 'zone' | 'epoch';
  /** Heard time; starts again when a zone's hold becomes its service's. */
  since: HeardMs;
  readonly wall: WallMs;
  /** Since when the row is absent and fails hard. */
  deadSince: HeardMs | undefined;
}

/**
 * A row of the catalog: the registry's last believable word, the guard's marks, and what health last made of it.
 * Only the guard and the catalog change the first two, only the zone the last.
 */
export class CatalogRow implements Row {
  id: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  portName: string | undefined;
  priority: number;
  weight: number;
  tags: readonly string[];
  zone: string | undefined;
  state: RowState;
  node: ListedNode | undefined;
  atNode: boolean | undefined;
  /** False: it has left; it is a tombstone, or held. */
  listed = true;
  /** Heard time of its first listing; -Infinity when it came with the first list or a snapshot. */
  addedAt: HeardMs;
  /** R8: a new row that made good a lost one. */
  counted = false;
  loss: Loss | undefined;
  hold: Hold | undefined;

  /** What stands for it where targets are held; the zone's. */
  holder: unknown;
  /** Key of its probe target; absent when it is not probed. */
  target: string | undefined;
  column: Column = 'no-word';
  /** Fails, and hard (R12). */
  hard = false;
  /** R14: had failed for `longDead` at its last result. */
  longDead = false;
  /** R20: out for a while, since connections of clients failed. */
  ejected = false;
  /** In the answer by R10, R12 and R20, before the floor. */
  answerable = false;
  /** In the answer, floor included. */
  answered = false;

  constructor(row: Row, addedAt: HeardMs) {
    this.id = row.id;
    this.address = row.address;
    this.port = row.port;
    this.protocol = row.protocol;
    this.portName = row.portName;
    this.priority = row.priority;
    this.weight = row.weight;
    this.tags = row.tags;
    this.zone = row.zone;
    this.state = row.state;
    this.node = row.node;
    this.atNode = row.atNode;
    this.addedAt = addedAt;
  }

  /** Takes over what the registry now says of it. Returns whether anything that shows in an answer or in R10 changed. */
  update(row: Row): boolean {
    const changed =
      row.priority !== this.priority ||
      row.weight !== this.weight ||
      row.portName !== this.portName ||
      row.state !== this.state ||
      row.id !== this.id ||
      row.zone !== this.zone ||
      (row.atNode === true) !== (this.atNode === true) ||
      !sameNode(row.node, this.node) ||
      !sameStrings(row.tags, this.tags);
    if (!changed) return false;
    this.id = row.id;
    this.priority = row.priority;
    this.weight = row.weight;
    this.tags = row.tags;
    this.state = row.state;
    this.portName = row.portName;
    this.zone = row.zone;
    this.node = row.node;
    this.atNode = row.atNode;
    return true;
  }

  /** Listed, and neither critical nor draining. */
  get passing(): boolean {
    return this.listed && (this.state === 'passing' || this.state === 'warning');
  }

  /** R8: first listed within the guard's window. */
  isNew(now: HeardMs, window: Ms): boolean {
    return now - this.addedAt <= window;
  }
}

function sameStrings(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}
