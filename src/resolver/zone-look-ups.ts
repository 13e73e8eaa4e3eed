/** R33: names of a zone that are not in the table: which service each would be of, what a look-up found, and forgetting. */
import { serviceLabelOf } from '../answers/naming/service-of.js';
import type { Service } from '../catalog/service.js';
import type { ZoneConfig } from '../config/types.js';
import type { LookUp } from '../registry/look-up.js';
import type { Instant } from '../system/clock.js';
import type { Log } from './events.js';
import type { Zone } from './zone.js';
import { type Remembered, type Seek, ZoneDemand } from './zone-demand.js';

/** What a name that is not in the table would be of. */
interface Sought {
  /** `unknown`: no service has the name, whatever the registry has. */
  readonly kind: 'empty' | 'unknown' | 'look-up';
  readonly service: string;
  /** It is known, and has no such name. */
  readonly known?: Service;
}

export class ZoneLookUps {
  /** Absent where the registry is mirrored whole. */
  demand: ZoneDemand | undefined;
  readonly #zone: Zone;
  readonly #log: Log;

  constructor(zone: Zone, log: Log) {
    this.#zone = zone;
    this.#log = log;
    this.demand = ZoneDemand.of(zone.config);
  }

  /** What is known stays known, in whatever way it came. */
  configure(config: ZoneConfig, now: Instant): void {
    const wanted = ZoneDemand.of(config);
    if (wanted === undefined || this.demand === undefined) this.demand = wanted;
    else this.demand.configure(config);
    if (this.demand !== wanted) return;
    for (const name of this.#zone.catalog.services.keys()) this.demand?.restored(name, now.boot);
  }

  /**
   * Somebody asks for a name that is not in the table: which service it would be of, and what is to be done. Of `empty`
   * names of services may be below.
   * @param labels those below the zone, lower case
   */
  seek(labels: readonly string[], now: Instant): { readonly kind: Seek | 'empty'; readonly service: string } {
    const { kind, service, known } = this.#sought(labels);
    if (known !== undefined) this.#zone.asked(known, now);
    if (kind !== 'look-up') return { kind, service };
    return { kind: this.demand!.seek(service, this.#zone.intake.failing, now.boot), service };
  }

  /** What `seek` would do, without doing it. */
  foretell(labels: readonly string[], now: Instant): Sought & { readonly remembered?: Remembered | undefined } {
    const sought = this.#sought(labels);
    if (sought.kind !== 'look-up') return sought;
    return { ...sought, remembered: this.demand!.remembered(sought.service, this.#zone.intake.failing, now.boot) };
  }

  #sought(labels: readonly string[]): Sought {
    const { config, names, catalog } = this.#zone;
    const of = serviceLabelOf(config.naming, labels);
    if (of === 'none') return { kind: 'empty', service: '' };
    const owner = of && names.labels.owner(of.label);
    const known = owner === undefined ? undefined : catalog.services.get(owner);
    if (known?.known) return { kind: 'unknown', service: known.name, known };
    const service = of && names.fold(of.label) !== undefined ? this.demand?.serviceOf(of.label) : undefined;
    return service === undefined ? { kind: 'unknown', service: '' } : { kind: 'look-up', service };
  }

  /** What a look-up found. Returns what that means for those who wait. */
  landed(service: string, found: LookUp, now: Instant): LookUp['kind'] {
    const { demand } = this;
    const zone = this.#zone;
    zone.now = now;
    if (demand === undefined) return 'failed';
    let { kind } = found;
    if (found.kind === 'found') {
      zone.finish(now);
      const { name } = found.listing;
      const source = zone.sources.all[0]!;
      const touched = source.adopt(found.listing, now);
      if (touched === undefined) {
        kind = 'failed';
        demand.left(name);
      } else {
        zone.settling.moved(source, touched);
        const own = zone.catalog.services.get(name);
        if (own !== undefined) zone.asked(own, now);
      }
    } else if (found.kind === 'failed') {
      this.#log('debug', 'look-up-failed', { zone: zone.config.name, service, reason: found.reason });
    }
    demand.landed(service, kind, now.boot);
    zone.show();
    return kind;
  }

  /** All that a zone on demand follows, most recently asked first. */
  order(): string[] {
    return this.demand?.order(this.#zone.catalog.services.keys()) ?? [];
  }

  /** Lets go what nobody has asked for. */
  forgetUnasked(now: Instant): void {
    const zone = this.#zone;
    const source = zone.sources.all[0]!;
    const gone = this.demand?.forgotten(source.catalog.services.keys(), source.hearing.heard, now.boot) ?? [];
    if (gone.length === 0) return;
    zone.finish(now);
    this.#log('info', 'services-forgotten', {
      zone: zone.config.name,
      services: gone.length,
      first: gone[0],
      why: 'nobody has asked for them for so long (forget, R33)',
    });
    zone.settling.moved(source, source.drop(gone, now));
  }
}
