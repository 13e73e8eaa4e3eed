/** Keeps one service's names in the table in step with its view: only what changed is written (R21 to R25). */
import { joinName } from '../dns/names.js';
import type { Row } from '../registry/registry.js';
import type { ServiceView } from './contract.js';
import type { SetRef } from './entry.js';
import type { Naming, ServiceName } from './naming/naming.js';
import { type CompiledSet, compileAddresses, compileSrv } from './service-sets.js';
import type { AnswerTable } from './table.js';

/** Where a service's names go. */
export interface Place {
  readonly table: AnswerTable;
  readonly zone: number;
  /** The zone's name in wire form. */
  readonly wire: Uint8Array;
  readonly naming: Naming;
  /** Seconds. */
  readonly ttl: number;
}

export class ServiceEntries {
  /** Names without records that it shares with other services. */
  shared: readonly string[] = [];
  readonly #place: Place;
  /** The names that it has below the zone, one a line, and the blocks of their sets: a large zone has very many services. */
  #names = '';
  #blocks: readonly number[] = [];

  constructor(place: Place) {
    this.#place = place;
  }

  put(view: ServiceView): void {
    const { table, zone } = this.#place;
    const before = this.#published();
    const compiler = new Compiler(this.#place, view);
    const after = new Set<number>();
    const names: string[] = [];
    for (const name of this.#place.naming.serviceNames(view.label, view.rows)) {
      const wire = this.#wire(name.name);
      if (wire === undefined) continue;
      const sets = compiler.sets(name, before.get(name.name) ?? []);
      table.set(zone, wire, compiler.withholds(name) ? view.withheld : view.status, sets, view.asked);
      names.push(name.name);
      for (const { set } of sets) after.add(set as number);
      before.delete(name.name);
    }
    for (const gone of before.keys()) table.delete(zone, this.#wire(gone)!);
    this.#release(after);
    const now = names.join('\n');
    if (now !== this.#names) this.#names = now;
  }

  remove(): void {
    for (const name of this.#published().keys()) this.#place.table.delete(this.#place.zone, this.#wire(name)!);
    this.#release(new Set());
    this.#names = '';
  }

  /** The names that it has, and the sets of its own that they refer to. */
  #published(): Map<string, readonly SetRef[]> {
    const { table, zone } = this.#place;
    if (this.#names === '') return new Map();
    const blocks = new Set<SetRef['set']>(this.#blocks);
    const own = ({ set }: SetRef): boolean => blocks.has(set);
    return new Map(this.#names.split('\n').map((name) => [name, table.sets(zone, this.#wire(name)!).filter(own)]));
  }

  /** Frees the sets that no name refers to any more. */
  #release(after: ReadonlySet<number>): void {
    const before = this.#blocks;
    if (before.length === after.size && before.every((block) => after.has(block))) return;
    this.#blocks = [...after];
    for (const block of before) if (!after.has(block)) this.#place.table.free(block);
  }

  #wire(name: string): Uint8Array | undefined {
    return joinName(name.split('.'), this.#place.wire);
  }
}

/** A narrowed set, what is answered of it, and that compiled, once a name wanted it. */
interface Answer {
  readonly subset: readonly Row[];
  readonly rows: readonly Row[];
  srv?: SetRef[];
  addresses?: SetRef[];
}

/** Compiles each narrowed set once for all names that have it. */
class Compiler {
  readonly #place: Place;
  readonly #view: ServiceView;
  /** By the first row. */
  readonly #answers = new Map<Row, Answer[]>();

  constructor(place: Place, view: ServiceView) {
    this.#place = place;
    this.#view = view;
  }

  /** `old`: the name's sets so far; those that are equal byte for byte are used again. */
  sets(name: ServiceName, old: readonly SetRef[]): SetRef[] {
    if (name.kind === 'non-terminal' || name.rows.length === 0) return [];
    const answer = this.#answer(name.rows);
    const { naming, ttl } = this.#place;
    const order = { stable: this.#view.order === 'stable', most: this.#view.maxAnswers ?? 0 };
    answer.srv ??= this.#store(compileSrv(answer.rows, naming, ttl, order), old);
    if (name.kind === 'srv') return answer.srv;
    answer.addresses ??= this.#store(compileAddresses(answer.rows, ttl, order), old);
    return [...answer.addresses, ...answer.srv];
  }

  /** R19: the name has rows, and none may be answered. */
  withholds(name: ServiceName): boolean {
    return name.kind !== 'non-terminal' && name.rows.length > 0 && this.#answer(name.rows).rows.length === 0;
  }

  #answer(subset: readonly Row[]): Answer {
    const first = subset[0]!;
    const alike = this.#answers.get(first);
    const known = alike?.find((answer) => sameRows(answer.subset, subset));
    if (known !== undefined) return known;
    const answer: Answer = { subset, rows: this.#view.answer(subset) };
    if (alike === undefined) this.#answers.set(first, [answer]);
    else alike.push(answer);
    return answer;
  }

  #store(sets: readonly CompiledSet[], old: readonly SetRef[]): SetRef[] {
    const { table } = this.#place;
    return sets.map(({ type, bytes }) => {
      const same = old.find((ref) => ref.type === type && table.holds(ref.set as number, bytes));
      return same ?? { type, set: table.put(bytes) };
    });
  }
}

function sameRows(a: readonly Row[], b: readonly Row[]): boolean {
  return a === b || (a.length === b.length && a.at(-1) === b.at(-1) && a.every((row, i) => row === b[i]));
}
