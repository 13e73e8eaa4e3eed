/**
 * The nodes of a registry file, for `naming: consul`:
 *
 *     nodes:
 *       NAME: { address, datacenter, meta: { KEY: TEXT } }
 *
 * An endpoint says with `node: NAME` which it is on; without an address of its own it has the node's.
 */
import { isHostLabel } from '../dns/names.js';
import { quote } from './endpoint.js';
import type { ListedNode } from './registry.js';
import { type AddressPolicy, normalizeAddress, normalizeHost } from './rows.js';
import { entriesOf } from './tree.js';

const MAX_TEXT = 255;
const MAX_META_TEXT = 512;
const MAX_META = 64;
const KEYS = ['address', 'datacenter', 'meta'];

/** The node, or what is wrong with it. */
export function readNode(name: string, value: unknown, policy: AddressPolicy): ListedNode | string {
  if (name === '' || name.length > MAX_TEXT) return 'the name of a node must be a short text';
  const entries = entriesOf(value);
  if (entries === undefined) return `node ${quote(name)} must be a mapping with an address`;
  const unknown = entries.find(([key]) => !KEYS.includes(key) && !key.startsWith('x-'));
  if (unknown !== undefined) return `unknown key ${quote(unknown[0])} in node ${quote(name)}`;
  const fields = Object.fromEntries(entries);
  const address =
    typeof fields.address === 'string'
      ? (normalizeAddress(fields.address) ?? normalizeHost(fields.address))
      : undefined;
  if (address === undefined)
    return `address of node ${quote(name)} must be an IP address or a host name, not ${quote(fields.address)}`;
  const fault = policy.fault(address);
  if (fault !== undefined) return `address ${address} is ${fault} (allowAddresses would permit it)`;
  const datacenter = typeof fields.datacenter === 'string' ? fields.datacenter.toLowerCase() : undefined;
  if (fields.datacenter != null && (datacenter === undefined || !isHostLabel(datacenter))) {
    return `datacenter of node ${quote(name)} must be a label, not ${quote(fields.datacenter)}`;
  }
  const meta = fields.meta == null ? undefined : readMeta(fields.meta);
  if (typeof meta === 'string') return `node ${quote(name)}: ${meta}`;
  return {
    name,
    address,
    ...(datacenter === undefined ? {} : { datacenter }),
    ...(meta === undefined ? {} : { meta }),
  };
}

function readMeta(value: unknown): Record<string, string> | string {
  const entries = entriesOf(value);
  if (entries === undefined || entries.length > MAX_META) return `meta must be a mapping of at most ${MAX_META} texts`;
  const meta: [string, string][] = [];
  for (const [key, text] of entries) {
    const shown = typeof text === 'number' || typeof text === 'boolean' ? String(text) : text;
    if (typeof shown !== 'string' || shown.length > MAX_META_TEXT || key.length > MAX_TEXT) {
      return `meta.${key.slice(0, 60)} must be a text of at most ${MAX_META_TEXT} characters`;
    }
    meta.push([key, shown]);
  }
  return Object.fromEntries(meta);
}
