/** Which rows of a zone are answered: verdicts on the rows, the cap (R12), the floor (R11), and the counts of them. */
import type { CatalogRow, Column, Strength } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { type Floored, type FloorStep, floor, judge } from '../health/floor.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Log } from './events.js';
import type { ZoneProbes } from './zone-probes.js';

/** R11: at least 60 s and three intervals. */
const FAIL_OPEN_MIN_MS: Ms = 60_000;
const FAIL_OPEN_INTERVALS = 3;

export class ZoneHealth {
  /** By service name: the floor step that gives its answer, as it was last told. */
  readonly floors = new Map<string, FloorStep>();
  /** R19: services of which nothing may be answered, since all that is left belongs to others. */
  readonly withheld = new Set<string>();
  /** Rows that are answered, floor included. */
  answered = 0;
  /** Rows that have a probe target. */
  probed = 0;
  /** Services that are known, and their rows that stand: what left and is only remembered is none of them. */
  known = 0;
  standing = 0;
  /** The floor step of each service while it is being worked out. */
  readonly #steps = new Map<Service, FloorStep>();
  readonly #zone: string;
  readonly #probes: ZoneProbes<unknown>;
  readonly #mark: (service: Service, row: CatalogRow) => void;
  readonly #log: Log;
  #answerable = 0;
  #worded = 0;

  /** `mark`: says of a row whose verdict was read whether it is another one's (R19). */
  constructor(zone: string, probes: ZoneProbes<unknown>, mark: (service: Service, row: CatalogRow) => void, log: Log) {
    this.#mark = mark;
    this.#zone = zone;
    this.#probes = probes;
    this.#log = log;
  }

  /** Whether the prober gives no word at all for the zone (R8). */
  get proberSilent(): boolean {
    return this.#worded === 0;
  }

  /** Works out what of the service is answered. Returns whether that changed. */
  judge(service: Service): boolean {
    let worded = 0;
    let probed = 0;
    const onTrial = this.#probes.onTrial(service);
    for (const row of service.rows.values()) {
      if (row.target !== undefined) probed++;
      if (this.#probes.read(row, onTrial)) worded++;
      this.#mark(service, row);
    }
    judge(service.rows.values(), this.#probes.settings(service).check.softCap, this.#probes.lastSuccess);
    let answerable = 0;
    for (const row of service.rows.values()) if (row.answerable) answerable++;
    this.#count(service, answerable, worded, probed);
    const standing = service.standing();
    this.#stand(service, service.listed || standing.length > 0 ? standing.length : -1);
    return this.#answer(service, standing);
  }

  /**
   * Whether all of a restored service was answered and stays so, whatever its verdicts make of it now: all its rows
   * are listed as passing and none fails. It counts as answerable then. `column`: the verdict of the snapshot.
   */
  restorePlain(service: Service, column: (row: CatalogRow) => Column | undefined): boolean {
    for (const row of service.rows.values()) {
      const settled = row.counted || row.addedAt === Number.NEGATIVE_INFINITY;
      if (!row.passing || !row.answered || !settled || row.loss !== undefined || row.hold !== undefined) return false;
      if (column(row) === 'fails') return false;
    }
    for (const row of service.rows.values()) row.answerable = true;
    this.#count(service, service.rows.size, 0, 0);
    this.#stand(service, service.rows.size);
    return service.rows.size > 0;
  }

  /** The rows to answer out of a set of a service's rows: what R10 and R12 left, or the floor (R11). */
  answerOf(service: Service, subset: readonly CatalogRow[]): Floored {
    const { failOpenWindow } = this.#probes.settings(service).check;
    const window = Math.max(failOpenWindow, FAIL_OPEN_MIN_MS, FAIL_OPEN_INTERVALS * this.#probes.interval(service));
    return floor(subset, window, () => this.#newestSuccess(service), this.#probes.lastSuccess);
  }

  /** The answerable rows of the service and of the zone, for the guard's base (R8). */
  strength(service: Service): Strength {
    const byPriority = new Map<number, number>();
    for (const row of service.rows.values()) {
      if (row.answerable) byPriority.set(row.priority, (byPriority.get(row.priority) ?? 0) + 1);
    }
    return { all: service.answerable, zone: this.#answerable, byPriority };
  }

  /** Says when nothing of a service may be answered any more, and when something may (R19). */
  tellWithheld(service: Service): void {
    const standing = service.standing();
    const withheld = standing.length > 0 && !standing.some((row) => row.answered);
    if (withheld === this.withheld.has(service.name)) return;
    const fields = { zone: this.#zone, service: service.name };
    if (withheld) this.withheld.add(service.name);
    else this.withheld.delete(service.name);
    if (withheld) this.#log('error', 'withheld', { ...fields, reason: "all its addresses are others' by now (R19)" });
    else this.#log('info', 'withheld-ended', fields);
  }

  /** Says when a service came to be answered by the floor, and when it no longer is. */
  tellFloor(service: Service): void {
    const step = this.#steps.get(service);
    if (step === this.floors.get(service.name)) return;
    const fields = { zone: this.#zone, service: service.name };
    if (step === undefined) this.floors.delete(service.name);
    else this.floors.set(service.name, step);
    if (step === undefined) this.#log('info', 'floor-left', fields);
    else this.#log('warn', 'floor', { ...fields, step });
  }

  forget(service: Service): void {
    this.#count(service, 0, 0, 0);
    this.#stand(service, -1);
    this.floors.delete(service.name);
    this.withheld.delete(service.name);
    this.#steps.delete(service);
  }

  #count(service: Service, answerable: number, worded: number, probed: number): void {
    this.#answerable += answerable - service.answerable;
    this.#worded += worded - service.worded;
    this.probed += probed - service.probed;
    service.answerable = answerable;
    service.worded = worded;
    service.probed = probed;
  }

  /** @param rows see `Service.stood` */
  #stand(service: Service, rows: number): void {
    const before = service.stood;
    this.known += Number(rows >= 0) - Number(before >= 0);
    this.standing += Math.max(0, rows) - Math.max(0, before);
    service.stood = rows;
  }

  /** Marks the rows that are answered, floor included. */
  #answer(service: Service, standing: readonly CatalogRow[]): boolean {
    const { rows, step } = this.answerOf(service, standing);
    if (step === undefined) this.#steps.delete(service);
    else this.#steps.set(service, step);
    // Nearly always all that stand are answered.
    const some = rows.length === standing.length ? undefined : new Set(rows);
    let changed = false;
    for (const row of service.rows.values()) {
      const answered = some === undefined ? row.listed || row.hold !== undefined : some.has(row);
      if (row.answered === answered) continue;
      row.answered = !row.answered;
      this.answered += row.answered ? 1 : -1;
      changed = true;
    }
    return changed;
  }

  #newestSuccess(service: Service): BootMs | undefined {
    let newest: BootMs | undefined;
    for (const row of service.rows.values()) {
      const at = this.#probes.lastSuccess(row);
      if (at !== undefined && (newest === undefined || at > newest)) newest = at;
    }
    return newest;
  }
}
