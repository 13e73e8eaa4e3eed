/** What a name below a zone is, and which endpoints it narrows to (R21 to R25). */
import { type Form, NO_FORM } from '../answers/naming/form.js';
import { STATUS_LABEL, serviceNames, TARGETS_LABEL } from '../answers/naming/rfc2782.js';
import type { CatalogRow } from '../catalog/row.js';
import { canonicalAddress } from '../config/addresses.js';
import { addressBytes, reverseName, targetLabel } from '../dns/addresses.js';
import { wireToName } from '../dns/names.js';
import { consulMeaning } from './explain-consul.js';
import { holderOf, type NameMeaning } from './name-meaning.js';
import type { Zone } from './zone.js';

const SERVICE_TYPES = ['A', 'AAAA', 'SRV'];
const NAMESERVER = `ns.${TARGETS_LABEL}`;

/** `below`: the labels below the zone, lower case, empty for its own name. `exists`: what DNS says of the name. */
export function meaningOf(zone: Zone, below: string, exists: boolean, form: Form): NameMeaning {
  if (below === '') return { types: ['SOA', 'NS'], words: ["the zone's own name (R27)"] };
  if (below === STATUS_LABEL) return { types: ['TXT'], words: ['the zone tells its state here (R22)'] };
  if (zone.config.naming === 'consul') return consulMeaning(zone, below, exists, form);
  if (below === TARGETS_LABEL) return { types: [], words: ['reserved: names of addresses are below it (R22, R23)'] };
  if (below === NAMESERVER && exists)
    return { types: ['A', 'AAAA'], words: ["the zone's name server: the addresses that it listens on (R27)"] };
  const labels = below.split('.');
  const [first = '', second] = labels;
  if (labels.length === 2 && second === TARGETS_LABEL) return target(zone, first, exists);
  if (labels.length === 1 && exists && first.startsWith('_'))
    return { types: [], words: [`names of services are below it: _SERVICE.${first} (R21)`] };
  const label = labels.length === 2 && (second === '_tcp' || second === '_udp') ? first.slice(1) : labels.at(-1)!;
  return ofService(zone, label, below, exists, form !== NO_FORM);
}

function ofService(zone: Zone, label: string, below: string, exists: boolean, fits: boolean): NameMeaning {
  const owner = zone.names.labels.owner(label);
  const found = owner === undefined ? undefined : zone.catalog.services.get(owner);
  const service = found?.known ? found : undefined;
  if (!fits && !exists) return { types: [], words: ['it fits no form of a name (R21, R25)'] };
  if (service === undefined) {
    const since = zone.hearing.heard ? '' : ', as far as is known: one that was added since would be missing';
    return { types: [], words: [`no service has this name${since} (R25)`] };
  }
  const standing = service.standing();
  const name = serviceNames(label, standing).find((one) => one.name === below);
  if (name === undefined) {
    const words = `${service.name} is known, but none of its endpoints gives this name: see their tags, port names and protocols (R21)`;
    return { types: [], words: [words], service };
  }
  if (name.kind === 'non-terminal') return { types: [], words: ['names of ports are below it (R21)'], service };
  const rows = name.rows as readonly CatalogRow[];
  const words =
    standing.length === 0
      ? ['the registry lists the service without any endpoint (R25)']
      : rows.length < standing.length || below !== label
        ? [narrowed(below, label)]
        : [];
  return { types: name.kind === 'srv' ? ['SRV'] : SERVICE_TYPES, words, service, rows };
}

/** What the labels before the service's own narrow it to. */
function narrowed(below: string, label: string): string {
  const labels = below.split('.');
  const protocol = labels[1]?.slice(1);
  if (labels.length === 2 && labels[0] === `_${label}`) return `only ${protocol}`;
  const tag = (word: string): string => `the tag ${word}`;
  if (!labels[0]!.startsWith('_')) return `only ${tag(labels[0]!)}`;
  const port = `the port ${labels[0]!.slice(1)}/${protocol}`;
  return labels.length === 4 ? `only ${port} of ${tag(labels[2]!)}` : `only ${port}`;
}

/** R23. */
function target(zone: Zone, label: string, exists: boolean): NameMeaning {
  const address = addressOf(label);
  if (address === undefined) return { types: [], words: ['not an address in the form that has a name (R23)'] };
  const types = [address.includes(':') ? 'AAAA' : 'A'];
  if (!exists) {
    const words = zone.names.deferred
      ? 'names of addresses are still being put after the start (R25)'
      : `no endpoint of the zone has ${address}, or had it within keepTargets (R23)`;
    return { types, words: [words] };
  }
  return { types, words: [`the name of ${address}, ${holderOf(zone, address)} (R23)`] };
}

/** The address of a target's label in its only form. */
function addressOf(label: string): string | undefined {
  const groups = label.split('-');
  const address = canonicalAddress(groups.join(groups.length === 4 ? '.' : ':'));
  const bytes = address === undefined ? undefined : addressBytes(address);
  return bytes !== undefined && targetLabel(bytes) === label ? address : undefined;
}

/** The address of a whole name in `in-addr.arpa` or `ip6.arpa`; undefined for any other name. */
export function reversedAddress(name: string): string | undefined {
  const labels = name.split('.').reverse();
  const [arpa, family, ...digits] = labels;
  if (arpa !== 'arpa' || (family !== 'in-addr' && family !== 'ip6')) return undefined;
  const text =
    family === 'in-addr'
      ? digits.join('.')
      : (digits
          .join('')
          .match(/.{1,4}/g)
          ?.join(':') ?? '');
  const address = canonicalAddress(text);
  const bytes = address === undefined ? undefined : addressBytes(address);
  return bytes !== undefined && wireToName(reverseName(bytes)) === name ? address : undefined;
}
