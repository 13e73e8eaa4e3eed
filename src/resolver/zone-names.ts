/** A zone's names in the answer table: which service is answered under which label, and with which EDE. */
import type { Ede, ZoneAnswerState, ZoneSpec } from '../answers/contract.js';
import type { Naming } from '../answers/naming/naming.js';
import { namingOf } from '../answers/naming/naming-of.js';
import type { AnswerTable } from '../answers/table.js';
import { ZoneAnswers } from '../answers/zone-answers.js';
import { Labels } from '../catalog/labels.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { EDE } from '../dns/constants.js';
import { isHostLabel, nameToWire } from '../dns/names.js';
import { isHostName } from '../registry/rows.js';
import type { BootMs, Ms } from '../system/clock.js';
import { KeptTargets } from './kept-targets.js';
import { ZoneNodes } from './zone-nodes.js';

/** How long readers may go on with the answers of earlier settings after a reload. */
const RETIRED_MS: Ms = 5_000;
const EDE_STALE_ANSWER = 3;

/** How one service is answered. */
export interface Answering {
  readonly order: 'weighted' | 'stable';
  readonly maxAnswers?: number;
  readonly alias?: string;
}

export interface NamesSource {
  answering(service: Service): Answering;
  /** The rows to answer out of a narrowed set. */
  answerOf(service: Service, subset: readonly CatalogRow[]): readonly CatalogRow[];
  service(name: string): Service | undefined;
  /** Index of the registry that alone gives the service, where the zone has several. */
  registry(service: Service): number | undefined;
}

/** Words of the answer table: the EDE of answers that come from one registry, or from the zone as a whole. */
interface StaleWords {
  /** Where the guard holds nothing of the service. */
  readonly plain: number;
  readonly guarded: number;
  text: string;
}

export class ZoneNames {
  labels: Labels;
  #naming!: Naming;
  readonly kept: KeptTargets;
  readonly nodes: ZoneNodes;
  readonly #source: NamesSource;
  readonly #table: AnswerTable;
  readonly #whole: StaleWords;
  /** By registry, where the zone has several. */
  readonly #words: StaleWords[] = [];
  /** Of services of which nothing may be answered (R19). */
  readonly #withheld: number;
  #spec: ZoneSpec;
  #answers: ZoneAnswers;
  /** Answers under earlier settings, until every reader has the new ones. */
  readonly #retired: { readonly answers: ZoneAnswers; readonly until: BootMs }[] = [];
  #deferring = false;
  readonly #deferred = new Set<string>();
  #state = '';

  constructor(table: AnswerTable, spec: ZoneSpec, keepTargets: Ms, source: NamesSource) {
    this.#table = table;
    this.#spec = spec;
    this.#source = source;
    this.kept = new KeptTargets(keepTargets);
    this.labels = this.#newLabels();
    this.#whole = this.#newWords();
    this.#withheld = table.allocStatus();
    table.setStatus(this.#withheld, { code: EDE.NO_REACHABLE_AUTHORITY, text: 'addresses belong to others' });
    this.#answers = new ZoneAnswers(table, table.allocZone(), spec, this.#whole.plain);
    this.nodes = new ZoneNodes(keepTargets, {
      put: (node) => this.#answers.putNode(node),
      remove: (node) => this.#answers.removeNode(node),
      hold: (address) => this.hold(address),
      drop: (address, now) => this.kept.drop(address, now),
    });
  }

  /** Answers the service under the labels that are its own (R22); takes its names away when it is not known. */
  publish(service: Service, now: BootMs): void {
    if (!service.known) {
      this.forget(service, now);
      return;
    }
    if (this.namesNodes) this.nodes.of(service, now);
    for (const label of this.labels.add(service.name, this.#source.answering(service).alias)) this.#publishOwner(label);
    for (const label of this.labels.of(service.name)) this.#publishOwner(label);
  }

  /** Gives the service's labels back (R22). */
  forget(service: Service, now: BootMs): void {
    this.nodes.forget(service, now);
    for (const label of this.labels.remove(service.name)) this.#publishOwner(label);
  }

  /** The zone's number in the table. */
  get index(): number {
    return this.#answers.zone;
  }

  /** The label under which a name can be answered; undefined: none (R22). */
  fold(name: string): string | undefined {
    return this.#naming.fold(name);
  }

  /** Hosts have names of their own. */
  get namesNodes(): boolean {
    return this.#spec.naming === 'consul';
  }

  /** R22: what of these services has no name since it is no label. */
  *unnamed(services: Iterable<Service>): Iterable<string> {
    for (const service of this.labels.unnamed) yield service;
    if (this.namesNodes) return;
    for (const service of services) {
      if (!service.known) continue;
      const ports = new Set<string>();
      for (const { portName } of service.rows.values()) {
        if (portName !== undefined && !isHostLabel(portName)) ports.add(portName);
      }
      for (const port of ports) yield `port ${port} of ${service.name}`;
    }
  }

  /** A row has the address (R23). */
  hold(address: string): void {
    if (isHostName(address) || !this.kept.hold(address) || this.#answers.putAddress(address)) return;
    if (this.#deferring) this.#deferred.add(address);
    else this.#answers.putTarget(address);
  }

  /** From now on target names wait for `putDeferred`: after a start, the first answers do not need them. */
  defer(): void {
    this.#deferring = true;
  }

  /** Puts up to `count` target names that wait. Returns whether there are more. */
  putDeferred(count: number): boolean {
    this.#deferring = false;
    for (const address of this.#deferred) {
      if (count-- <= 0) return true;
      this.#deferred.delete(address);
      if (this.kept.has(address)) this.#answers.putTarget(address);
    }
    return false;
  }

  /** Target names are still to come: what is not found may yet exist. */
  get deferred(): boolean {
    return this.#deferring || this.#deferred.size > 0;
  }

  /** From a snapshot: the address keeps its name until then (R23). */
  keep(address: string, until: BootMs): void {
    if (this.kept.restore(address, until)) this.#answers.putTarget(address);
  }

  /**
   * What the zone as a whole answers with. `stale`: the EDE text of stale answers; undefined while fresh. `registries`:
   * the same of each registry, where there are several.
   */
  show(state: ZoneAnswerState, stale: string | undefined, registries: readonly (string | undefined)[] = []): void {
    this.#tell(this.#whole, stale);
    for (const [i, one] of registries.entries()) this.#tell((this.#words[i] ??= this.#newWords()), one);
    const text = JSON.stringify(state);
    if (text === this.#state) return;
    this.#state = text;
    this.#answers.setState(state);
  }

  #newWords(): StaleWords {
    return { plain: this.#table.allocStatus(), guarded: this.#table.allocStatus(), text: '' };
  }

  #tell(words: StaleWords, stale: string | undefined): void {
    const plain: Ede | undefined = stale === undefined ? undefined : { code: EDE_STALE_ANSWER, text: stale };
    const guarded: Ede = { code: EDE_STALE_ANSWER, text: stale === undefined ? 'guard' : `guard, ${stale}` };
    const text = `${plain?.text}|${guarded.text}`;
    if (text === words.text) return;
    words.text = text;
    this.#table.setStatus(words.plain, plain);
    this.#table.setStatus(words.guarded, guarded);
  }

  /** New facts of the zone. The caller publishes every service and shows the state again. */
  reconfigure(spec: ZoneSpec, keepTargets: Ms, registries: readonly string[], now: BootMs): void {
    this.kept.configure(keepTargets);
    this.nodes.configure(keepTargets, registries, now);
    if (JSON.stringify(spec) === JSON.stringify(this.#spec)) return;
    const renamed = spec.naming !== this.#spec.naming;
    this.#spec = spec;
    this.#retired.push({ answers: this.#answers, until: now + RETIRED_MS });
    this.#answers = new ZoneAnswers(this.#table, this.#table.allocZone(), spec, this.#whole.plain);
    this.#state = '';
    if (renamed) this.labels = this.#newLabels();
    for (const node of this.nodes.all()) this.#answers.putNode(node);
    for (const address of this.kept.addresses()) this.#answers.putTarget(address);
  }

  tick(now: BootMs): void {
    while (this.#retired[0] !== undefined && this.#retired[0].until <= now) this.#retired.shift()!.answers.dispose();
    for (const address of this.kept.expire(now)) this.#answers.removeTarget(address);
    this.nodes.expire(now);
  }

  nextWake(): BootMs {
    const retired = this.#retired[0]?.until ?? Number.POSITIVE_INFINITY;
    return Math.min(retired, this.kept.nextExpiry(), this.nodes.nextExpiry());
  }

  dispose(): void {
    for (const { answers } of this.#retired.splice(0)) answers.dispose();
    this.#answers.dispose();
    for (const { plain, guarded } of [this.#whole, ...this.#words]) {
      this.#table.freeStatus(plain);
      this.#table.freeStatus(guarded);
    }
    this.#table.freeStatus(this.#withheld);
  }

  #newLabels(): Labels {
    const naming = namingOf(this.#spec, nameToWire(this.#spec.name)!);
    this.#naming = naming;
    return new Labels(
      (name) => this.#source.service(name)?.listed === true,
      (name) => naming.fold(name),
    );
  }

  /** A label may have changed hands: its present owner is answered under it, or nobody. */
  #publishOwner(label: string): void {
    const owner = this.labels.owner(label);
    const service = owner === undefined ? undefined : this.#source.service(owner);
    if (service?.known) this.#put(service, label);
    else this.#answers.removeService(label);
  }

  #put(service: Service, label: string): void {
    const { order, maxAnswers } = this.#source.answering(service);
    const rows = service.standing();
    const registry = this.#source.registry(service);
    const words = registry === undefined ? this.#whole : (this.#words[registry] ??= this.#newWords());
    this.#answers.putService({
      label,
      rows,
      answer: (subset) => this.#source.answerOf(service, subset as readonly CatalogRow[]),
      order,
      ...(maxAnswers === undefined ? {} : { maxAnswers }),
      ...(service.asked === 0 ? {} : { asked: service.asked }),
      withheld: this.#withheld,
      status: rows.some((row) => row.hold !== undefined) ? words.guarded : words.plain,
    });
  }
}
