/** What a name of a zone with `naming: consul` is, and which endpoints it narrows to (R21). */
import { FOREIGN_FORM, type Form, NO_FORM } from '../answers/naming/form.js';
import { namingOf } from '../answers/naming/naming-of.js';
import type { CatalogRow } from '../catalog/row.js';
import { canonicalAddress } from '../config/addresses.js';
import { nameToWire } from '../dns/names.js';
import { holderOf, type NameMeaning } from './name-meaning.js';
import type { Zone } from './zone.js';

const KINDS = ['service', 'node', 'addr'];

export function consulMeaning(zone: Zone, below: string, exists: boolean, form: Form): NameMeaning {
  if (below === 'ns' && exists)
    return { types: ['A', 'AAAA'], words: ["the zone's name server: the addresses that it listens on (R27)"] };
  const labels = below.split('.');
  const at = labels.findLastIndex((label) => KINDS.includes(label));
  if (form === FOREIGN_FORM || form === NO_FORM)
    return exists ? { types: [], words: ['names are below it (R21)'] } : foreign(zone);
  const kind = at < 0 ? 'service' : labels[at];
  const parts = labels.slice(0, at < 0 ? 2 : at);
  if (kind === 'addr') return ofAddress(zone, parts[0]!, exists);
  if (kind === 'node') return ofNode(zone, parts.join('.'), below, exists);
  return ofService(zone, parts, below);
}

function foreign({ config }: Zone): NameMeaning {
  const what = 'a name that the catalog does not tell of, such as one of a prepared query or of another datacenter';
  const then = config.agentDns.length > 0 ? 'the agents of agentDns are asked' : 'there is no agentDns to be asked';
  return { types: [], words: [`${what}: ${then} (R21)`] };
}

function ofService(zone: Zone, parts: readonly string[], below: string): NameMeaning {
  const underscored = parts.length === 2 && parts.every((part) => part.startsWith('_'));
  const label = underscored ? parts[0]!.slice(1) : parts.at(-1)!;
  const owner = zone.names.labels.owner(label);
  const found = owner === undefined ? undefined : zone.catalog.services.get(owner);
  const service = found?.known ? found : undefined;
  if (service === undefined) {
    const since = zone.hearing.heard ? '' : ', as far as is known: one that was added since would be missing';
    return { types: [], words: [`no service has this name${since} (R25)`] };
  }
  const standing = service.standing();
  const naming = namingOf(zone.config, nameToWire(zone.config.name)!);
  const name = naming.serviceNames(label, standing).find((one) => one.name === below);
  if (name === undefined) {
    const words = `${service.name} is known, but none of its endpoints gives this name: see their tags and datacenters (R21)`;
    return { types: [], words: [words], service };
  }
  if (name.kind === 'non-terminal') return { types: [], words: ['names of tags are below it (R21)'], service };
  const rows = name.rows as readonly CatalogRow[];
  const tag = underscored ? parts[1]!.slice(1) : parts.slice(0, -1).join('.');
  const words: string[] = [];
  if (standing.length === 0) words.push('the registry lists the service without any endpoint (R25)');
  else if (underscored && tag === 'tcp') words.push('all endpoints: tcp in the place of a tag is any (R21)');
  else if (tag !== '') words.push(`only the tag ${tag}`);
  return { types: name.kind === 'srv' ? ['SRV'] : ['A', 'AAAA', 'SRV'], words, service, rows };
}

function ofNode(zone: Zone, name: string, below: string, exists: boolean): NameMeaning {
  const naming = namingOf(zone.config, nameToWire(zone.config.name)!);
  for (const node of zone.names.nodes.all()) {
    if (!naming.nodeNames(node).some((one) => one.toLowerCase() === below)) continue;
    const left = [...zone.names.nodes.leaving()].some(([leaving]) => leaving === node);
    const types = [
      node.address.includes(':') ? 'AAAA' : 'A',
      ...(Object.keys(node.meta ?? {}).length > 0 ? ['TXT'] : []),
    ];
    const since = left ? ', which has left: the name is kept for keepTargets (R23)' : '';
    return { types, words: [`the node ${node.name} at ${node.address}${since}`] };
  }
  if (exists) return { types: [], words: ['names of nodes are below it (R21)'] };
  return { types: [], words: [`no node ${name} is known (R25)`] };
}

function ofAddress(zone: Zone, label: string, exists: boolean): NameMeaning {
  const groups =
    label.length === 8
      ? label
          .match(/../g)!
          .map((hex) => Number.parseInt(hex, 16))
          .join('.')
      : label.match(/.{4}/g)!.join(':');
  const address = canonicalAddress(groups) ?? groups;
  const types = [address.includes(':') ? 'AAAA' : 'A'];
  if (exists) return { types, words: [`the name of ${address}, ${holderOf(zone, address)} (R23)`] };
  const words = zone.names.deferred
    ? 'names of addresses are still being put after the start (R25)'
    : `nothing in the zone has ${address}, or had it within keepTargets (R23)`;
  return { types, words: [words] };
}
