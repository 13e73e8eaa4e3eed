/** An entry as a key of etcd: the inverse of the layouts that `registry/etcd-plain.ts` and `etcd-skydns.ts` read. */
import type { EtcdRegistryConfig } from '../config/types.js';
import type { Entry } from './entry.js';

export interface WrittenKey {
  /** Below the prefix, without its slash. */
  readonly key: string;
  readonly value: string;
}

/** Undefined when the layout cannot say it: SkyDNS has no word for an endpoint that is critical or draining. */
export function writeKey(layout: EtcdRegistryConfig['layout'], entry: Entry, owner: string): WrittenKey | undefined {
  return layout === 'plain' ? plain(entry, owner) : skydns(entry, owner);
}

function plain(entry: Entry, owner: string): WrittenKey {
  const { service, id, ...fields } = entry;
  return { key: `${service}/${id}`, value: JSON.stringify({ ...fields, 'x-holdfast-owner': owner }) };
}

/** Labels between the service and its record are tags; those with an underscore are protocol and name of the port. */
function skydns(entry: Entry, owner: string): WrittenKey | undefined {
  const { service, id, address, port, protocol, portName, tags, priority, weight, state } = entry;
  if (state !== 'passing') return undefined;
  const marks = protocol === 'udp' || portName !== undefined ? [`_${protocol}`] : [];
  const labels = [service, ...marks, ...(portName === undefined ? [] : [`_${portName}`]), ...tags, id];
  const fields = { host: address, port, priority, weight, 'x-holdfast-owner': owner };
  return { key: labels.join('/'), value: JSON.stringify(fields) };
}
