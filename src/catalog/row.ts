import { type ListedNode, type Protocol, type Row, type RowState, sameNode } from '../registry/registry.js';
import type { BootMs, Ms, WallMs } from '../system/clock.js';

/** A point on a zone's heard clock (R4): time that passed while its registry was heard. */
export type HeardMs = number;

/** Why a row belongs to another one: another zone lists its address, or something else answers there (R19). */
export type Foreign = 'claimed' | 'wrong-identity';

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
  wall: WallMs;
  /** Since when the row is absent and fails hard. */
  deadSince: HeardMs | undefined;
}

/** What a row knows besides its port, packed into one number: a large zone has very many rows. */
const PORT = 0xffff;
const UDP = 1 << 16;
const LISTED = 1 << 17;
const COUNTED = 1 << 18;
const HARD = 1 << 19;
const LONG_DEAD = 1 << 20;
const EJECTED = 1 << 21;
const ANSWERABLE = 1 << 22;
const ANSWERED = 1 << 23;
const AT_NODE = 1 << 24;
const STATE_SHIFT = 25;
const COLUMN_SHIFT = 27;
const FOREIGN_SHIFT = 29;
const TWO_BITS = 3;
const STATES: readonly RowState[] = ['passing', 'warning', 'critical', 'draining'];
const COLUMNS: readonly Column[] = ['no-word', 'passes', 'fails'];
const FOREIGN: readonly (Foreign | undefined)[] = [undefined, 'claimed', 'wrong-identity'];
const NO_TAGS: readonly string[] = [];

/** What nearly no row has. */
interface Seldom {
  addedAt: HeardMs;
  loss: Loss | undefined;
  hold: Hold | undefined;
  listedSince: BootMs;
  goneSince: BootMs | undefined;
  doubted: boolean;
  drained: boolean;
  leaving: boolean;
  host: string | undefined;
}

/**
 * A row of the catalog: the registry's last believable word, the guard's marks, and what health last made of it.
 * Only the guard and the catalog change the first two, only the zone the last.
 */
export class CatalogRow implements Row {
  id: string;
  readonly address: string;
  portName: string | undefined;
  tags: readonly string[];
  zone: string | undefined;
  node: ListedNode | undefined;
  /** What stands for it where targets are held; the zone's. */
  holder: unknown;
  /** Key of its probe target; absent when it is not probed. */
  target: string | undefined;
  #bits: number;
  /** Priority above, weight below. */
  #order: number;
  #seldom: Seldom | undefined;

  /** Tags may be missing where there are none. */
  constructor(row: Omit<Row, 'tags'> & Partial<Pick<Row, 'tags'>>, addedAt: HeardMs) {
    this.id = row.id;
    this.address = row.address;
    this.portName = row.portName;
    this.tags = tagsOf(row);
    this.zone = row.zone;
    this.node = row.node;
    this.holder = undefined;
    this.target = undefined;
    this.#seldom = undefined;
    this.#bits =
      (row.port & PORT) |
      LISTED |
      (row.protocol === 'udp' ? UDP : 0) |
      (row.atNode === true ? AT_NODE : 0) |
      (STATES.indexOf(row.state) << STATE_SHIFT);
    this.#order = (row.priority << 16) | row.weight;
    if (row.host !== undefined) this.#rare().host = row.host;
    if (addedAt !== Number.NEGATIVE_INFINITY) this.#rare().addedAt = addedAt;
  }

  get port(): number {
    return this.#bits & PORT;
  }

  get protocol(): Protocol {
    return this.#is(UDP) ? 'udp' : 'tcp';
  }

  get priority(): number {
    return this.#order >>> 16;
  }

  get weight(): number {
    return this.#order & 0xffff;
  }

  get atNode(): boolean {
    return this.#is(AT_NODE);
  }

  get state(): RowState {
    return STATES[(this.#bits >>> STATE_SHIFT) & TWO_BITS]!;
  }

  get column(): Column {
    return COLUMNS[(this.#bits >>> COLUMN_SHIFT) & TWO_BITS]!;
  }

  set column(column: Column) {
    this.#bits = (this.#bits & ~(TWO_BITS << COLUMN_SHIFT)) | (COLUMNS.indexOf(column) << COLUMN_SHIFT);
  }

  /** R19: it belongs to another one, and is never answered. */
  get foreign(): Foreign | undefined {
    return FOREIGN[(this.#bits >>> FOREIGN_SHIFT) & TWO_BITS];
  }

  set foreign(foreign: Foreign | undefined) {
    this.#bits = (this.#bits & ~(TWO_BITS << FOREIGN_SHIFT)) | (FOREIGN.indexOf(foreign) << FOREIGN_SHIFT);
  }

  /** Heard time of its first listing; -Infinity when it came with the first list or a snapshot. */
  get addedAt(): HeardMs {
    return this.#seldom?.addedAt ?? Number.NEGATIVE_INFINITY;
  }

  get loss(): Loss | undefined {
    return this.#seldom?.loss;
  }

  set loss(loss: Loss | undefined) {
    if (loss !== this.loss) this.#rare().loss = loss;
  }

  get hold(): Hold | undefined {
    return this.#seldom?.hold;
  }

  set hold(hold: Hold | undefined) {
    if (hold !== this.hold) this.#rare().hold = hold;
  }

  /** R28: the host name that its address came from, or that it still has in its place. */
  get host(): string | undefined {
    return this.#seldom?.host;
  }

  /** Since when it is listed without a break; -Infinity when it came with the first list (R19). */
  get listedSince(): BootMs {
    return this.#seldom?.listedSince ?? Number.NEGATIVE_INFINITY;
  }

  set listedSince(since: BootMs) {
    this.#rare().listedSince = since;
  }

  /** Since when it is not listed, or critical after it was answered (R19). */
  get goneSince(): BootMs | undefined {
    return this.#seldom?.goneSince;
  }

  set goneSince(since: BootMs | undefined) {
    if (since !== this.goneSince) this.#rare().goneSince = since;
  }

  /** R19, reused addresses: it has failed hard, and a pass proves nothing while the registry is not heard. */
  get doubted(): boolean {
    return this.#seldom?.doubted === true;
  }

  set doubted(is: boolean) {
    if (is !== this.doubted) this.#rare().doubted = is;
  }

  /** An operator drains it on this host (R10). */
  get drained(): boolean {
    return this.#seldom?.drained === true;
  }

  set drained(is: boolean) {
    if (is !== this.drained) this.#rare().drained = is;
  }

  /** It says itself, to its probe, that it drains (R10). */
  get leaving(): boolean {
    return this.#seldom?.leaving === true;
  }

  set leaving(is: boolean) {
    if (is !== this.leaving) this.#rare().leaving = is;
  }

  /** By whoever's word: the registry's, an operator's, its own. */
  get draining(): boolean {
    return this.state === 'draining' || this.drained || this.leaving;
  }

  /** False: it has left; it is a tombstone, or held. */
  get listed(): boolean {
    return this.#is(LISTED);
  }

  set listed(is: boolean) {
    this.#mark(LISTED, is);
  }

  /** R8: a new row that made good a lost one. */
  get counted(): boolean {
    return this.#is(COUNTED);
  }

  set counted(is: boolean) {
    this.#mark(COUNTED, is);
  }

  /** Fails, and hard (R12). */
  get hard(): boolean {
    return this.#is(HARD);
  }

  set hard(is: boolean) {
    this.#mark(HARD, is);
  }

  /** R14: had failed for `longDead` at its last result. */
  get longDead(): boolean {
    return this.#is(LONG_DEAD);
  }

  set longDead(is: boolean) {
    this.#mark(LONG_DEAD, is);
  }

  /** R20: out for a while, since connections of clients failed. */
  get ejected(): boolean {
    return this.#is(EJECTED);
  }

  set ejected(is: boolean) {
    this.#mark(EJECTED, is);
  }

  /** In the answer by R10, R12 and R20, before the floor. */
  get answerable(): boolean {
    return this.#is(ANSWERABLE);
  }

  set answerable(is: boolean) {
    this.#mark(ANSWERABLE, is);
  }

  /** In the answer, floor included. */
  get answered(): boolean {
    return this.#is(ANSWERED);
  }

  set answered(is: boolean) {
    this.#mark(ANSWERED, is);
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
      row.host !== this.host ||
      (row.atNode === true) !== this.atNode ||
      !sameNode(row.node, this.node) ||
      !sameStrings(row.tags, this.tags);
    if (!changed) return false;
    this.id = row.id;
    this.#order = (row.priority << 16) | row.weight;
    this.tags = tagsOf(row);
    this.#bits = (this.#bits & ~(TWO_BITS << STATE_SHIFT)) | (STATES.indexOf(row.state) << STATE_SHIFT);
    this.#mark(AT_NODE, row.atNode === true);
    this.portName = row.portName;
    this.zone = row.zone;
    this.node = row.node;
    if (row.host !== this.host) this.#rare().host = row.host;
    return true;
  }

  /** Listed, and neither critical nor draining. */
  get passing(): boolean {
    return this.listed && (this.state === 'passing' || this.state === 'warning') && !this.drained && !this.leaving;
  }

  /** R8: first listed within the guard's window. */
  isNew(now: HeardMs, window: Ms): boolean {
    return now - this.addedAt <= window;
  }

  #rare(): Seldom {
    this.#seldom ??= {
      addedAt: Number.NEGATIVE_INFINITY,
      loss: undefined,
      hold: undefined,
      listedSince: Number.NEGATIVE_INFINITY,
      goneSince: undefined,
      doubted: false,
      drained: false,
      leaving: false,
      host: undefined,
    };
    return this.#seldom;
  }

  #is(flag: number): boolean {
    return (this.#bits & flag) !== 0;
  }

  #mark(flag: number, is: boolean): void {
    this.#bits = is ? this.#bits | flag : this.#bits & ~flag;
  }
}

/** Empty lists are one and the same. */
function tagsOf({ tags }: Partial<Pick<Row, 'tags'>>): readonly string[] {
  return tags === undefined || tags.length === 0 ? NO_TAGS : tags;
}

function sameStrings(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}
