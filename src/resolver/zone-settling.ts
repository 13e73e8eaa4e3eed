/** Health, guard, answers, in that order, for the services of a zone about which something was said. */
import type { Service } from '../catalog/service.js';
import { type Steps, toTheEnd } from '../catalog/steps.js';
import type { Zone } from './zone.js';
import type { ZoneAsked } from './zone-asked.js';
import type { ZoneSource } from './zone-source.js';

export class ZoneSettling {
  readonly #zone: Zone;
  readonly #asked: ZoneAsked<Zone>;

  constructor(zone: Zone, asked: ZoneAsked<Zone>) {
    this.#zone = zone;
    this.#asked = asked;
  }

  /** `guards` false: what is being taken in is not whole yet, so no guard may judge by it. */
  settle(touched: Set<Service>, guards = true): void {
    toTheEnd(this.settling(touched, guards));
  }

  /** As `settle`; the guards look at services of their own besides. */
  *settling(touched: Set<Service>, guards: boolean): Steps {
    const zone = this.#zone;
    const { sources, health, names, claims } = zone;
    claims.begin();
    for (const service of touched) {
      this.#judge(service);
      yield service.rows.size + 1;
    }
    for (const source of guards ? sources.all : []) {
      if (!source.hearing.heard) continue;
      claims.begin();
      const { guard, guardLog, hearing } = source;
      const events = guard.evaluate(hearing.clock.at(zone.now.boot), zone.now.wall, health.proberSilent);
      for (const service of this.seen(source, guardLog.tell(events))) {
        this.#judge(service);
        touched.add(service);
      }
    }
    for (const service of touched) {
      const { size } = service.rows;
      for (const gone of sources.layers.sweep([service])) {
        touched.delete(gone);
        this.forget(gone);
      }
      // What has left counts no more: whether the prober says anything is asked of what is there (R8).
      if (service.rows.size !== size && touched.has(service)) this.#judge(service);
      yield 1;
    }
    for (const service of touched) {
      zone.unsaved.add(service.name);
      health.tellFloor(service);
      health.tellWithheld(service);
      names.publish(service, zone.now.boot);
      yield service.rows.size + 1;
    }
  }

  /** Rows of a registry came or went without a word of it. */
  moved(source: ZoneSource, own: Set<Service>): void {
    if (own.size === 0) return;
    for (const { name } of own) this.#zone.unsaved.add(name);
    const touched = this.seen(source, own);
    for (const service of touched) this.aim(service);
    this.#zone.claims.contest(touched);
    this.#zone.bump();
    this.settle(touched);
  }

  /** What is seen of a registry's services. */
  seen(source: ZoneSource, services: Iterable<Service>): Set<Service> {
    return this.#zone.sources.layers.show(source, services);
  }

  /** The service's check may have changed. */
  aim(service: Service): void {
    const { probes, now } = this.#zone;
    probes.aim(service, now.boot);
    if (!this.#asked.wants(service)) this.#asked.unmark(service);
    else if (service.asked === 0 && service.rows.size > 0) {
      this.#asked.mark(service, now.boot);
      probes.pace(service, now.boot);
    }
  }

  /** No registry has it any more. */
  forget(service: Service): void {
    const zone = this.#zone;
    zone.health.forget(service);
    zone.probes.forget(service);
    this.#asked.unmark(service);
    zone.unsaved.add(service.name);
    zone.demand?.left(service.name);
    zone.names.forget(service, zone.now.boot);
  }

  #judge(service: Service): void {
    const zone = this.#zone;
    const { layers } = zone.sources;
    if (zone.health.judge(service)) zone.bump();
    layers.judged(service);
    for (const { layer, service: own } of layers.partsOf(service)) {
      layer.guard.recount(own, layer.hearing.clock.at(zone.now.boot), zone.health.proberSilent);
    }
  }
}
