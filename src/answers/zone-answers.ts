import { addressBytes, quad } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { joinName, nameToWire } from '../dns/names.js';
import { addressType, record, ttlSeconds } from '../dns/records.js';
import type { ListedNode } from '../registry/registry.js';
import type { ServiceView, ZoneAnswerState, ZoneSpec } from './contract.js';
import { edeBlock } from './ede-block.js';
import type { Naming } from './naming/naming.js';
import { namingOf } from './naming/naming-of.js';
import { STATUS_LABEL } from './naming/rfc2782.js';
import { NodeEntries } from './node-entries.js';
import { hasReverse, putReverse, removeAllReverse, removeReverse } from './reverse-names.js';
import { type Place, ServiceEntries } from './service-entries.js';
import { addressSet, singleSet } from './sets.js';
import type { SharedTargets } from './shared.js';
import type { AnswerTable, SetRef } from './table.js';
import { apexSets, statusSets, type ZoneFacts, zoneStateBlock } from './zone-records.js';

/** Compiles one zone's names into the table (R21 to R27). */
export class ZoneAnswers {
  readonly #table: AnswerTable;
  readonly #zone: number;
  readonly #spec: ZoneSpec;
  readonly #wire: Uint8Array;
  readonly #facts: ZoneFacts;
  readonly #naming: Naming;
  readonly #place: Place;
  readonly #services = new Map<string, ServiceEntries>();
  readonly #nodes: NodeEntries;
  readonly #status: number;
  /** Set where names of IPv4 addresses are made when they are asked: most of a large zone's names. */
  readonly #targets: SharedTargets | undefined;
  /** The name of the node that has an address, for its reverse name. */
  readonly #nodeNames = new Map<string, string>();
  /** How many services need a name without records that they share. */
  readonly #shared = new Map<string, number>();
  #negative = 0;
  #negativeText = '';
  #shown = false;

  /**
   * Nothing is answered before the first `setState`, so that a zone can be filled first; from then on it exists for
   * readers, and it wins over an equal zone that was there before. Throws on a zone name without wire form.
   * `status`: the slot whose EDE goes with names of hosts and of addresses.
   */
  constructor(table: AnswerTable, zoneIndex: number, spec: ZoneSpec, status = 0) {
    const wire = nameToWire(spec.name);
    if (wire === undefined || wire.length < 2) throw new Error(`zone ${spec.name} has no wire form`);
    this.#table = table;
    this.#zone = zoneIndex;
    this.#spec = spec;
    this.#wire = wire;
    this.#naming = namingOf(spec, wire);
    this.#facts = { wire, spec, nameserver: joinName(this.#naming.nameserver.split('.'), wire) };
    this.#place = { table, zone: zoneIndex, wire, naming: this.#naming, ttl: ttlSeconds(spec.answerTtl) };
    this.#nodes = new NodeEntries(this.#place, status);
    this.#status = status;
    const parent = spec.naming === 'rfc2782' ? this.#naming.targets : undefined;
    this.#targets = parent === undefined ? undefined : { parent, ttl: this.#place.ttl, status };
  }

  /** Its number in the table. */
  get zone(): number {
    return this.#zone;
  }

  /** Adds or replaces a service. What did not change is not rewritten. */
  putService(view: ServiceView): void {
    const known = this.#services.get(view.label);
    const service = known ?? new ServiceEntries(this.#place);
    const before = service.shared;
    service.shared = this.#naming.sharedNames(view.rows);
    for (const name of service.shared) if (!before.includes(name)) this.#count(name, 1);
    for (const name of before) if (!service.shared.includes(name)) this.#count(name, -1);
    service.put(view);
    if (known === undefined) this.#services.set(view.label, service);
  }

  removeService(label: string): void {
    const service = this.#services.get(label);
    if (service === undefined) return;
    service.remove();
    for (const name of service.shared) this.#count(name, -1);
    this.#services.delete(label);
  }

  /** R23: the names of an address and its PTR. Not an IP address: nothing happens. */
  putTarget(address: string): void {
    if (this.putAddress(address)) return;
    const bytes = addressBytes(address);
    if (bytes === undefined) return;
    const { ttl } = this.#place;
    const type = addressType(bytes);
    for (const name of this.#namesOf(bytes)) {
      this.#table.set(this.#zone, name, this.#status, [{ type, set: singleSet(record(type, ttl, bytes)) }]);
    }
    this.#putReverse(address, bytes);
  }

  /** As `putTarget`, for an address whose names are not compiled: that takes no time to speak of. False for others. */
  putAddress(address: string): boolean {
    const number = this.#targets === undefined ? -1 : quad(address);
    if (number >= 0) this.#table.addAddress(this.#zone, number);
    return number >= 0;
  }

  removeTarget(address: string): void {
    const number = this.#targets === undefined ? -1 : quad(address);
    if (number >= 0) {
      this.#table.deleteAddress(this.#zone, number);
      return;
    }
    const bytes = addressBytes(address);
    if (bytes === undefined) return;
    for (const name of this.#namesOf(bytes)) this.#table.delete(this.#zone, name);
    removeReverse(this.#table, this.#zone, bytes);
  }

  /** Adds or replaces a host. Its address has a name of its own, too, once that is put as a target. */
  putNode(node: ListedNode): void {
    this.#nodes.put(node);
    const [name] = this.#naming.nodeNames(node);
    if (name === undefined) return;
    this.#nodeNames.set(node.address, name);
    this.#renew(node.address);
  }

  removeNode(node: ListedNode): void {
    this.#nodes.remove(node);
    if (this.#nodeNames.get(node.address) !== this.#naming.nodeNames(node)[0]) return;
    this.#nodeNames.delete(node.address);
    this.#renew(node.address);
  }

  /** The reverse name of an address that has one may have another record now. */
  #renew(address: string): void {
    const bytes = addressBytes(address);
    if (bytes !== undefined && hasReverse(this.#table, this.#zone, bytes)) this.#putReverse(address, bytes);
  }

  #putReverse(address: string, bytes: Uint8Array): void {
    const name = this.#nodeNames.get(address) ?? this.#naming.addressNames(bytes)[0];
    const target = name === undefined ? undefined : joinName(name.split('.'), this.#wire);
    if (target !== undefined) putReverse(this.#table, this.#zone, bytes, target, this.#place.ttl);
  }

  #namesOf(address: Uint8Array): Uint8Array[] {
    const names = this.#naming.addressNames(address).map((name) => joinName(name.split('.'), this.#wire));
    return names.filter((name) => name !== undefined);
  }

  setState(state: ZoneAnswerState): void {
    this.#own([], apexSets(this.#facts, state.serial));
    this.#own([STATUS_LABEL], statusSets(this.#spec, state.statusText));
    const before = this.#negative;
    const negative = state.negative === undefined ? '' : `${state.negative.code} ${state.negative.text ?? ''}`;
    if (negative !== this.#negativeText) {
      this.#negative = state.negative === undefined ? 0 : this.#table.put(edeBlock(state.negative));
      this.#negativeText = negative;
    }
    this.#table.setZoneState(this.#zone, zoneStateBlock(this.#facts, state, this.#negative));
    if (before !== this.#negative && before !== 0) this.#table.free(before);
    if (!this.#shown) this.#show();
  }

  /** Takes the zone and all its names out of the table, and gives its index back. Once; the zone is over then. */
  dispose(): void {
    // The zone first: a reader then goes on with all of it until it takes a handle that has none of it.
    this.#table.clearZone(this.#zone);
    for (const service of this.#services.values()) service.remove();
    this.#services.clear();
    removeAllReverse(this.#table, this.#zone);
    if (this.#negative !== 0) this.#table.free(this.#negative);
    this.#negative = 0;
    this.#table.freeZone(this.#zone);
  }

  #show(): void {
    for (const name of this.#naming.fixed) this.#own(name.split('.'), []);
    const { nameserver } = this.#facts;
    if (nameserver !== undefined) this.#table.set(this.#zone, nameserver, 0, this.#nameserverSets());
    this.#table.setZone(this.#zone, this.#wire, this.#spec, this.#targets);
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

  #count(shared: string, change: number): void {
    const count = (this.#shared.get(shared) ?? 0) + change;
    if (count === 0) this.#shared.delete(shared);
    else this.#shared.set(shared, count);
    const name = joinName(shared.split('.'), this.#wire);
    if (name === undefined) return;
    if (count === 0) this.#table.delete(this.#zone, name);
    else if (count === change) this.#table.set(this.#zone, name, 0, []);
  }
}
