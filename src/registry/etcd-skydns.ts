/**
 * The layout of SkyDNS and of CoreDNS's etcd plug-in. Below the prefix and the reversed labels of the zone:
 *
 *     SERVICE[/LABEL...]   {"host", "port", "priority", "weight", "text", "ttl", "group"}
 *
 * A name has the records of its whole subtree: what stands between the service and its record is a tag, so that
 * `LABEL.SERVICE.ZONE` answers as it does there. `_tcp`, `_udp` and `_NAME` give protocol and port name. As in
 * CoreDNS a weight of 0 is 100 and a priority of 0 is 10. `ttl` and `text` have no place here.
 */
import { readRows } from './endpoint.js';
import { type Layout, readObject, readRelease } from './etcd-layout.js';
import type { AddressPolicy } from './rows.js';

const PRIORITY = 10;
const WEIGHT = 100;

/** @param port of records that have none */
export function skydnsLayout(policy: AddressPolicy, port: number | undefined): Layout {
  return (key, value) => {
    const release = readRelease(key, value);
    if (release !== undefined) return release;
    const [service = '', ...labels] = key.split('/');
    if (service === '' || labels.includes('')) return { kind: 'bad', reason: 'an empty label in the key' };
    const fields = readObject(value);
    if (typeof fields === 'string') return { kind: 'bad', service, reason: fields, unreadable: true };
    const { host, priority, weight, group } = fields;
    if (host == null || host === '') return { kind: 'bad', service, reason: 'no host' };
    if (group != null && typeof group !== 'string') return { kind: 'bad', service, reason: 'group must be text' };
    const protocol = labels.includes('_udp') ? 'udp' : 'tcp';
    const portName = labels.find((label) => /^_./.test(label) && label !== '_tcp' && label !== '_udp')?.slice(1);
    const tags = labels.filter((label) => !label.startsWith('_'));
    const rows = readRows(
      {
        address: host,
        port: fields.port || port,
        priority: priority || PRIORITY,
        weight: weight || WEIGHT,
        protocol,
        portName,
        tags,
        id: labels.length === 0 ? service : labels.join('/'),
      },
      { protocol: 'tcp', priority: PRIORITY, weight: WEIGHT },
      policy,
    );
    if (typeof rows === 'string') return { kind: 'bad', service, reason: rows.replace(/^address must/, 'host must') };
    return { kind: 'rows', service, rows, place: { depth: labels.length, group: group ?? '' } };
  };
}
