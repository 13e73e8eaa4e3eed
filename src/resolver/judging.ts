/** Services whose verdicts changed, and that are to be looked at again: at the pace that the control thread bears. */
import type { Service } from '../catalog/service.js';
import type { BootMs, Instant, Ms } from '../system/clock.js';
import { JudgingPace } from './judging-pace.js';
import type { Zone } from './zone.js';
import type { Holder } from './zone-probes.js';

export class Judging {
  readonly #zones: ReadonlyMap<string, Zone>;
  readonly #pace = new JudgingPace<Service>();
  /** Whose those are that wait. */
  readonly #owners = new Map<Service, Zone>();

  /** @param zones all that there are, by key */
  constructor(zones: ReadonlyMap<string, Zone>) {
    this.#zones = zones;
  }

  /** Verdicts on these rows changed, as measured at that interval; 0: they are looked at by the next `judge`. */
  changed(holders: Iterable<Holder<Zone>>, interval: Ms, now: Instant): void {
    for (const { zone, service } of holders) {
      this.#owners.set(service, zone);
      this.#pace.add(service, interval, now.boot);
    }
  }

  /** Looks at those whose time has come. */
  judge(now: Instant): void {
    const due = new Map<Zone, Set<Service>>();
    for (const service of this.#pace.take(now.boot)) {
      const zone = this.#owners.get(service)!;
      this.#owners.delete(service);
      // It may have left meanwhile.
      const stands = this.#zones.get(zone.key) === zone && zone.catalog.services.get(service.name) === service;
      if (stands) gather(zone, service, due);
    }
    for (const [zone, services] of due) zone.verdictsChanged(services, now);
  }

  /** When `judge` has something to do; Infinity when it has not. */
  nextDue(): BootMs {
    return this.#pace.nextDue();
  }
}

/** Puts a service to those of its zone. */
export function gather(zone: Zone, service: Service, into: Map<Zone, Set<Service>>): void {
  const services = into.get(zone);
  if (services === undefined) into.set(zone, new Set([service]));
  else services.add(service);
}
