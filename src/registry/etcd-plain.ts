/**
 * The layout of our own:
 *
 *     PREFIX/SERVICE/ID    {"address", "port" | "ports", "protocol", "portName", "weight", "priority", "tags", "state", "zone"}
 *     PREFIX/SERVICE       {"check": {"type", "port", "path", "status"}}
 *     PREFIX/.release/NAME an ISO time (R9)
 *
 * Fields mean what they mean in a registry file. Keys of an object that begin with `x-` are ignored.
 */
import { type Defaults, ENDPOINT_KEYS, quote, readRows } from './endpoint.js';
import { type KeyContents, type Layout, readObject, readRelease } from './etcd-layout.js';
import { readCheck } from './listed-check.js';
import type { AddressPolicy } from './rows.js';

const DEFAULTS: Defaults = { protocol: 'tcp', priority: 0, weight: 1 };

/** @param port of entries that have none */
export function plainLayout(policy: AddressPolicy, port: number | undefined): Layout {
  return (key, value) => {
    const release = readRelease(key, value);
    if (release !== undefined) return release;
    const [service = '', ...rest] = key.split('/');
    if (service === '') return { kind: 'bad', reason: 'no service in the key' };
    const fields = readObject(value);
    if (rest.length === 0) return readSettings(service, fields);
    const id = rest.join('/');
    if (typeof fields === 'string') return { kind: 'bad', service, reason: fields, unreadable: true };
    const unknown = Object.keys(fields).find((name) => !ENDPOINT_KEYS.has(name) && !name.startsWith('x-'));
    if (unknown !== undefined) return { kind: 'bad', service, reason: `unknown field ${quote(unknown)}` };
    const ported = fields.port == null && fields.ports == null && port !== undefined ? { ...fields, port } : fields;
    const rows = readRows({ ...ported, id: ported.id ?? id }, DEFAULTS, policy);
    return typeof rows === 'string' ? { kind: 'bad', service, reason: rows } : { kind: 'rows', service, rows };
  };
}

function readSettings(service: string, fields: Record<string, unknown> | string): KeyContents {
  if (typeof fields === 'string') return { kind: 'bad', service, reason: fields, unreadable: true };
  const unknown = Object.keys(fields).find((name) => name !== 'check' && !name.startsWith('x-'));
  if (unknown !== undefined) return { kind: 'bad', service, reason: `unknown field ${quote(unknown)} of a service` };
  if (fields.check == null) return { kind: 'settings', service };
  const check = readCheck(fields.check);
  return typeof check === 'string' ? { kind: 'bad', service, reason: check } : { kind: 'settings', service, check };
}
