import { addressBytes, targetLabel } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { joinName, nameToWire } from '../dns/names.js';
import { addressType, record, ttlSeconds } from '../dns/records.js';
import type { ServiceView, ZoneAnswerState, ZoneSpec } from './contract.js';
import { edeBlock } from './ede-block.js';
import { STATUS_LABEL, TARGETS_LABEL, zoneProtocols } from './naming/rfc2782.js';
import { putReverse, removeAllReverse, removeReverse } from './reverse-names.js';
import { type Place, ServiceEntries } from './service-entries.js';
import { addressSet, singleSet } from './sets.js';
import type { AnswerTable, SetRef } from './table.js';
import { apexSets, nameserverName, statusSets, zoneStateBlock } from './zone-records.js';

/** Compiles one zone's names into the table (R21 to R27). */
export class ZoneAnswers {
  readonly #table: AnswerTable;
  readonly #zone: number;
  readonly #spec: ZoneSpec;
  readonly #wire: Uint8Array;
  readonly #place: Place;
  readonly #services = new Map<string, Service>();
  /** How many services need `_tcp.ZONE` and `_udp.ZONE`. */
  readonly #protocols = new Map<string, number>();
  #negative = 0;
  #negativeText = '';
  #shown = false;

  /**
   * Nothing is answered before the first `setState`, so that a zone can be filled first; from then on it exists for
   * readers, and it wins over an equal zone that was there before. Throws on a zone name without wire form.
   */
  constructor(table: AnswerTable, zoneIndex: number, spec: ZoneSpec) {
    const wire = nameToWire(spec.name);
    if (wire === undefined || wire.length < 2) throw new Error(`zone ${spec.name} has no wire form`);
    if (spec.naming !== 'rfc2782') throw new Error(`zone ${spec.name}: naming ${spec.naming} has no forms here`);
    this.#table = table;
    this.#zone = zoneIndex;
    this.#spec = spec;
    this.#wire = wire;
    const targets = joinName([TARGETS_LABEL], wire);
    this.#place = { table, zone: zoneIndex, wire, targets, ttl: ttlSeconds(spec.answerTtl) };
  }

  /** Adds or replaces a service. What did not change is not rewritten. */
  putService(view: ServiceView): void {
    const known = this.#services.get(view.label);
    const service = known ?? { entries: new ServiceEntries(this.#place), protocols: [] };
    const before = service.protocols;
    service.protocols = zoneProtocols(view.rows);
    for (const protocol of service.protocols) if (!before.includes(protocol)) this.#count(protocol, 1);
    for (const protocol of before) if (!service.protocols.includes(protocol)) this.#count(protocol, -1);
    service.entries.put(view);
    if (known === undefined) this.#services.set(view.label, service);
  }

  removeService(label: string): void {
    const service = this.#services.get(label);
    if (service === undefined) return;
    service.entries.remove();
    for (const protocol of service.protocols) this.#count(protocol, -1);
    this.#services.delete(label);
  }

  /** R23: `10-0-0-1.ip.ZONE` and its PTR, with the EDE of `status` when given. Not an IP address: nothing happens. */
  putTarget(address: string, status = 0): void {
    const bytes = addressBytes(address);
    const name = bytes && joinName([targetLabel(bytes), TARGETS_LABEL], this.#wire);
    if (bytes === undefined || name === undefined) return;
    const { ttl } = this.#place;
    const type = addressType(bytes);
    this.#table.set(this.#zone, name, status, [{ type, set: singleSet(record(type, ttl, bytes)) }]);
    putReverse(this.#table, this.#zone, bytes, name, ttl);
  }

  removeTarget(address: string): void {
    const bytes = addressBytes(address);
    const name = bytes && joinName([targetLabel(bytes), TARGETS_LABEL], this.#wire);
    if (bytes === undefined || name === undefined) return;
    this.#table.delete(this.#zone, name);
    removeReverse(this.#table, this.#zone, bytes);
  }

  setState(state: ZoneAnswerState): void {
    this.#own([], apexSets(this.#wire, this.#spec, state.serial));
    this.#own([STATUS_LABEL], statusSets(this.#spec, state.statusText));
    const before = this.#negative;
    const negative = state.negative === undefined ? '' : `${state.negative.code} ${state.negative.text ?? ''}`;
    if (negative !== this.#negativeText) {
      this.#negative = state.negative === undefined ? 0 : this.#table.put(edeBlock(state.negative));
      this.#negativeText = negative;
    }
    this.#table.setZoneState(this.#zone, zoneStateBlock(this.#wire, this.#spec, state, this.#negative));
    if (before !== this.#negative && before !== 0) this.#table.free(before);
    if (!this.#shown) this.#show();
  }

  /** Takes the zone and all its names out of the table, and gives its index back. Once; the zone is over then. */
  dispose(): void {
    // The zone first: a reader then goes on with all of it until it takes a handle that has none of it.
    this.#table.clearZone(this.#zone);
    for (const { entries } of this.#services.values()) entries.remove();
    this.#services.clear();
    removeAllReverse(this.#table, this.#zone);
    if (this.#negative !== 0) this.#table.free(this.#negative);
    this.#negative = 0;
    this.#table.freeZone(this.#zone);
  }

  #show(): void {
    this.#own([TARGETS_LABEL], []);
    const nameserver = nameserverName(this.#wire);
    if (nameserver !== undefined) this.#table.set(this.#zone, nameserver, 0, this.#nameserverSets());
    this.#table.setZone(this.#zone, this.#wire, this.#spec);
    this.#shown = true;
  }

  #nameserverSets(): SetRef[] {
    const addresses = [...new Set(this.#spec.nameservers)].filter((text) => addressBytes(text) !== undefined);
    const order = { stable: false, most: 0 };
    const weighted = addresses.map((address) => ({ address, weight: 1 }));
    return [TYPE.A, TYPE.AAAA].flatMap((type) => {
      const family = weighted.filter(({ address }) => address.includes(':') === (type === TYPE.AAAA));
      return family.length === 0 ? [] : [{ type, set: addressSet(this.#place.ttl, family, order) }];
    });
  }

  /** Writes one of the zone's own names; one over 255 octets does not exist. */
  #own(labels: readonly string[], sets: readonly SetRef[]): void {
    const name = joinName(labels, this.#wire);
    if (name !== undefined) this.#table.set(this.#zone, name, 0, sets);
  }

  #count(protocol: string, change: number): void {
    const count = (this.#protocols.get(protocol) ?? 0) + change;
    this.#protocols.set(protocol, count);
    const name = joinName([`_${protocol}`], this.#wire);
    if (name === undefined) return;
    if (count === 0) this.#table.delete(this.#zone, name);
    else if (count === change) this.#table.set(this.#zone, name, 0, []);
  }
}

interface Service {
  readonly entries: ServiceEntries;
  protocols: readonly string[];
}
