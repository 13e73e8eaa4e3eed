/** One endpoint of a registry file: its rows, or why it has none. */
import { toInteger } from './listed-check.js';
import type { ListedNode, Protocol, Row, RowState } from './registry.js';
import { type AddressPolicy, isPort, isUint16, normalizeAddress, normalizeHost, ROW_STATES } from './rows.js';
import { entriesOf } from './tree.js';

const MAX_TAGS = 100;
const MAX_LABEL = 255;

export interface Defaults {
  readonly portName?: string;
  readonly protocol: Protocol;
  readonly priority: number;
  readonly weight: number;
}

/** Keys that a service gives for all its endpoints. */
export const SERVICE_KEYS = new Set(['portName', 'protocol', 'priority', 'weight']);
export const ENDPOINT_KEYS = new Set([...SERVICE_KEYS, ...['id', 'address', 'port', 'ports', 'tags', 'zone', 'state']]);

/** Fields that services and endpoints share, or what is wrong with them. */
export function readDefaults(fields: Record<string, unknown>, outer?: Defaults): Defaults | string {
  const protocol = fields.protocol ?? outer?.protocol ?? 'tcp';
  if (protocol !== 'tcp' && protocol !== 'udp') return 'protocol must be tcp or udp';
  const priority = toInteger(fields.priority ?? outer?.priority ?? 0);
  if (!isUint16(priority)) return 'priority must be 0 to 65535';
  const weight = toInteger(fields.weight ?? outer?.weight ?? 1);
  if (!isUint16(weight)) return 'weight must be 0 to 65535';
  const portName = fields.portName ?? outer?.portName;
  if (portName === undefined || portName === null) return { protocol, priority, weight };
  if (!isLabelText(portName)) return 'portName must be a short text';
  return { protocol, priority, weight, portName: portName.toLowerCase() };
}

/** The rows of one endpoint, one a port (R5), or what is wrong with it. `node`: the host that it is on. */
export function readRows(
  fields: Record<string, unknown>,
  defaults: Defaults,
  policy: AddressPolicy,
  node?: ListedNode,
): Row[] | string {
  const atNode = node !== undefined && fields.address == null;
  const given = atNode ? node.address : fields.address;
  const address = typeof given === 'string' ? (normalizeAddress(given) ?? normalizeHost(given)) : undefined;
  if (address === undefined) return `address must be an IP address or a host name, not ${quote(given)}`;
  const fault = policy.fault(address);
  if (fault !== undefined) return `address ${address} is ${fault} (allowAddresses would permit it)`;
  const shared = readDefaults(fields, defaults);
  if (typeof shared === 'string') return shared;
  const state = (fields.state ?? 'passing') as RowState;
  if (!ROW_STATES.includes(state)) return `state must be one of ${ROW_STATES.join(', ')}, not ${quote(state)}`;
  const tags = readTags(fields.tags);
  if (tags === undefined) return `tags must be a list of at most ${MAX_TAGS} short texts`;
  const { id, zone } = fields;
  if (!isOptionalText(id)) return 'id must be a short text';
  if (!isOptionalText(zone)) return 'zone must be a short text';
  const ports = readPorts(fields, shared.portName, policy.portless);
  if (typeof ports === 'string') return ports;
  const { portName: _, ...rest } = shared;
  return ports.map(([portName, port]): Row => {
    const host = address.includes(':') ? `[${address}]` : address;
    const row = { id: id == null ? `${host}:${port}` : String(id), address, port, ...rest, tags, state };
    return {
      ...row,
      ...(portName === undefined ? {} : { portName }),
      ...(zone == null ? {} : { zone: String(zone) }),
      ...(node === undefined ? {} : { node }),
      ...(atNode ? { atNode } : {}),
    };
  });
}

/** `port`, or `ports` with a name each: one row a port (R5). */
function readPorts(
  { port, ports }: Record<string, unknown>,
  portName: string | undefined,
  portless: boolean,
): [string | undefined, number][] | string {
  if (ports == null) {
    const number = toInteger(port);
    return isPort(number) || (portless && number === 0)
      ? [[portName, number]]
      : `port must be 1 to 65535, not ${quote(port)}`;
  }
  if (port != null) return 'port and ports exclude each other';
  const entries = entriesOf(ports);
  if (entries === undefined || entries.length === 0) return 'ports must be a mapping such as {http: 8080}';
  const result: [string, number][] = [];
  for (const [name, value] of entries) {
    const number = toInteger(value);
    if (!isLabelText(name) || !isPort(number)) return `ports.${name} must be 1 to 65535, not ${quote(value)}`;
    result.push([name.toLowerCase(), number]);
  }
  return result;
}

function readTags(value: unknown): string[] | undefined {
  if (value == null) return [];
  if (!Array.isArray(value) || value.length > MAX_TAGS) return undefined;
  const tags = value.map((tag: unknown) => (typeof tag === 'number' ? String(tag) : tag));
  return tags.every(isLabelText) ? tags : undefined;
}

/** A service's name, of whatever characters: one that is no label may have an alias. */
export function isShortName(name: string): boolean {
  return name.length <= MAX_LABEL;
}

function isLabelText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_LABEL;
}

function isOptionalText(value: unknown): boolean {
  return value == null || isLabelText(typeof value === 'number' ? String(value) : value);
}

/** A value as it is shown in a message: what is in lists and maps may have no end, and is not looked at. */
export function quote(value: unknown): string {
  const text = typeof value === 'string' ? value : shown(value);
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}...` : text);
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? '[]' : '[...]';
  return entriesOf(value)?.length === 0 ? '{}' : '{...}';
}
