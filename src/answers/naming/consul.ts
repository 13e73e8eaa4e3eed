/**
 * The names of `naming: consul` (R21), as the DNS interface of Consul's agent has them. DC is one of `datacenters`; of
 * names without it the first is meant.
 *
 *     SERVICE.service[.DC]           A, AAAA, SRV
 *     TAG.SERVICE.service[.DC]       A, AAAA, SRV; a tag may have dots
 *     _SERVICE._TAG.service[.DC]     A, AAAA, SRV; the tag `tcp` is any
 *     _SERVICE._TAG[.DC]             SRV
 *     NODE.node[.DC]                 A or AAAA, TXT; a node's name may have dots
 *     0a000001.addr[.DC]             A or AAAA
 */
import { addressBytes } from '../../dns/addresses.js';
import { joinName } from '../../dns/names.js';
import type { ListedNode, Row } from '../../registry/registry.js';
import type { Naming, ServiceName, Target } from './naming.js';

const KINDS = ['service', 'node', 'addr'] as const;
/** RFC 2782: with this in the place of the tag all endpoints are meant, whatever their protocol. */
const ANY_TAG = 'tcp';
/** A label with an underscore before it has one octet less for itself. */
const MAX_UNDERSCORED = 62;

/** Targets that are remembered, so that each is made once for the many names that have it. */
const MAX_KNOWN = 10_000;

const WORDS = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
const SERVICE = /^[a-z0-9-][a-z0-9_-]{0,62}$/;

export class ConsulNaming implements Naming {
  readonly targets = undefined;
  readonly fixed: readonly string[];
  readonly nameserver = 'ns';
  readonly #wire: Uint8Array;
  readonly #datacenters: readonly string[];
  readonly #known = new Map<string, Target | undefined>();

  constructor(wire: Uint8Array, datacenters: readonly string[]) {
    this.#wire = wire;
    this.#datacenters = datacenters;
    this.fixed = ['', ...datacenters.map((datacenter) => `.${datacenter}`)].flatMap((suffix) => [
      ...(suffix === '' ? [] : [suffix.slice(1)]),
      ...KINDS.map((kind) => `${kind}${suffix}`),
    ]);
  }

  fold(name: string): string | undefined {
    const label = name.toLowerCase();
    return SERVICE.test(label) ? label : undefined;
  }

  serviceNames(label: string, rows: readonly Row[]): ServiceName[] {
    const names: ServiceName[] = [];
    for (const [suffixes, local] of this.#byDatacenter(rows)) {
      for (const suffix of suffixes) {
        names.push({ name: `${label}.service${suffix}`, rows: local, kind: 'service' });
        underscored(label, ANY_TAG, suffix, local, names);
      }
      for (const [tag, tagged] of byTag(local)) {
        for (const suffix of suffixes) {
          names.push({ name: `${tag}.${label}.service${suffix}`, rows: tagged, kind: 'service' });
          if (tag.includes('.')) parents(`${tag}.${label}.service${suffix}`, tag, names);
          else if (tag !== ANY_TAG) underscored(label, tag, suffix, tagged, names);
        }
      }
    }
    return withoutRepeats(names);
  }

  sharedNames(rows: readonly Row[]): readonly string[] {
    const names = new Set<string>();
    for (const [suffixes, local] of this.#byDatacenter(rows)) {
      const tags = [ANY_TAG, ...byTag(local).keys()].filter(
        (tag) => !tag.includes('.') && tag.length <= MAX_UNDERSCORED,
      );
      for (const tag of tags) {
        for (const suffix of suffixes) names.add(`_${tag}.service${suffix}`).add(`_${tag}${suffix}`);
      }
    }
    return [...names];
  }

  addressNames(address: Uint8Array): string[] {
    const hex = Buffer.from(address).toString('hex');
    const [first] = this.#datacenters;
    const names = this.#datacenters.map((datacenter) => `${hex}.addr.${datacenter}`);
    return first === undefined ? [] : [...names, `${hex}.addr`];
  }

  nodeNames(node: ListedNode): string[] {
    const suffixes = this.#suffixesOf(node.datacenter);
    if (suffixes.length === 0 || !WORDS.test(node.name.toLowerCase())) return [];
    return suffixes.map((suffix) => `${node.name}.node${suffix}`);
  }

  nodeParents(node: ListedNode): string[] {
    const parts = node.name.split('.').slice(1);
    return this.nodeNames(node).flatMap((name) => {
      const suffix = name.slice(node.name.length);
      return parts.map((_, i) => `${parts.slice(i).join('.').toLowerCase()}${suffix}`);
    });
  }

  /** As the agent gives them: the node's name where the address is the node's, the address's otherwise. */
  target(row: Row): Target | undefined {
    const datacenter = row.node?.datacenter ?? this.#datacenters[0];
    const node = row.atNode === true && row.node !== undefined ? this.nodeNames(row.node)[0] : undefined;
    const key = node ?? `${row.address} ${datacenter}`;
    if (this.#known.has(key)) return this.#known.get(key);
    const target = this.#target(key, node ?? `${hexOf(row.address)}.addr.${datacenter}`);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, target);
    return target;
  }

  #target(key: string, name: string): Target | undefined {
    const wire = joinName(name.split('.'), this.#wire);
    return wire && { key, wire };
  }

  /** Rows of each listed datacenter with what ends their names. A service without rows is one of the first. */
  #byDatacenter(rows: readonly Row[]): (readonly [suffixes: readonly string[], rows: readonly Row[]])[] {
    const [first] = this.#datacenters;
    if (rows.length === 0) return [[this.#suffixesOf(first), rows]];
    return this.#datacenters.flatMap((datacenter) => {
      const local = only(rows, (row) => (row.node?.datacenter ?? first) === datacenter);
      return local.length === 0 ? [] : [[this.#suffixesOf(datacenter), local] as const];
    });
  }

  /** The longest first: it is the one that targets have. */
  #suffixesOf(datacenter: string | undefined): readonly string[] {
    const at = datacenter === undefined ? 0 : this.#datacenters.indexOf(datacenter);
    if (at < 0 || this.#datacenters.length === 0) return [];
    return at === 0 ? [`.${this.#datacenters[0]}`, ''] : [`.${datacenter}`];
  }
}

function hexOf(address: string): string {
  return Buffer.from(addressBytes(address) ?? []).toString('hex');
}

/** `_SERVICE._TAG`, with and without `service`. */
function underscored(label: string, tag: string, suffix: string, rows: readonly Row[], names: ServiceName[]): void {
  if (label.length > MAX_UNDERSCORED || tag.length > MAX_UNDERSCORED) return;
  names.push({ name: `_${label}._${tag}.service${suffix}`, rows, kind: 'service' });
  names.push({ name: `_${label}._${tag}${suffix}`, rows, kind: 'srv' });
}

/** The names between a tag with dots and its service's. */
function parents(name: string, tag: string, names: ServiceName[]): void {
  for (let dot = tag.indexOf('.'); dot !== -1; dot = tag.indexOf('.', dot + 1)) {
    names.push({ name: name.slice(dot + 1), rows: [], kind: 'non-terminal' });
  }
}

/** A name with rows before the same without: a tag may end as another one does. */
function withoutRepeats(names: readonly ServiceName[]): ServiceName[] {
  const byName = new Map<string, ServiceName>();
  for (const name of names) {
    if (name.kind !== 'non-terminal' || !byName.has(name.name)) byName.set(name.name, name);
  }
  return [...byName.values()];
}

/** Rows by tag, folded to lower case as the agent compares them; a tag without the bytes of a name has none (R22). */
function byTag(rows: readonly Row[]): Map<string, readonly Row[]> {
  const tags = new Map<string, Row[]>();
  for (const row of rows) {
    for (const spelled of row.tags) {
      const tag = spelled.toLowerCase();
      if (!WORDS.test(tag)) continue;
      const tagged = tags.get(tag);
      if (tagged === undefined) tags.set(tag, [row]);
      else if (tagged.at(-1) !== row) tagged.push(row);
    }
  }
  return new Map([...tags].map(([tag, tagged]) => [tag, tagged.length === rows.length ? rows : tagged]));
}

/** Keeps the array itself when nothing falls out, so that equal subsets are compiled once. */
function only(rows: readonly Row[], keep: (row: Row) => boolean): readonly Row[] {
  const kept = rows.filter(keep);
  return kept.length === rows.length ? rows : kept;
}
