/** `holdfast drain`: an operator's word on endpoints of this host's answers (R10). */
import type { DrainReceipt } from '../admin/documents.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { normalizeAddress } from '../registry/rows.js';
import type { Instant } from '../system/clock.js';
import type { Log } from './events.js';
import { hostPort } from './status.js';
import type { Zone } from './zone.js';

/**
 * Marks what `name` means, or takes the mark away: a service, or endpoints by id, address, or address and port.
 * Undefined when nothing has this name. `zones`: of the result, those that have it.
 */
export function drain(
  zones: Iterable<Zone>,
  name: string,
  undo: boolean,
  log: Log,
  now: Instant,
): { readonly receipt: DrainReceipt; readonly zones: readonly Zone[] } | undefined {
  const receipt = { endpoints: 0, changed: 0, answered: 0 };
  const having: Zone[] = [];
  for (const zone of zones) {
    const meant = meantBy(zone, name);
    if (meant.size === 0) continue;
    having.push(zone);
    let changed = 0;
    for (const rows of meant.values()) {
      for (const row of rows) {
        if (row.drained === undo) changed++;
        row.drained = !undo;
      }
    }
    if (changed > 0) {
      zone.settle(new Set(meant.keys()), now);
      log('info', undo ? 'undrained' : 'drained', { zone: zone.config.name, name, endpoints: changed });
    }
    const rows = [...meant.values()].flat();
    receipt.endpoints += rows.length;
    receipt.changed += changed;
    receipt.answered += rows.filter((row) => row.answered).length;
  }
  return having.length === 0 ? undefined : { receipt, zones: having };
}

function meantBy(zone: Zone, name: string): Map<Service, CatalogRow[]> {
  const { services } = zone.catalog;
  const exact = services.get(name);
  if (exact !== undefined && hasEndpoints(exact)) return new Map([[exact, exact.standing()]]);
  const meant = new Map<Service, CatalogRow[]>();
  const place = placeOf(name);
  for (const one of services.values()) {
    const rows = one.standing().filter(({ id, address, port }) => {
      return id === name || address === place || hostPort(address, port) === place;
    });
    if (rows.length > 0) meant.set(one, rows);
  }
  const asked = zone.meant(name);
  if (meant.size === 0 && asked !== undefined && hasEndpoints(asked)) meant.set(asked, asked.standing());
  return meant;
}

function hasEndpoints(service: Service): boolean {
  return service.known && service.standing().length > 0;
}

/** An address, with or without a port, as rows have it, however it is written: `[FD00:0::1]:80`, `DB.example.com`. */
function placeOf(text: string): string {
  const [, bracketed, port] = /^\[([^\]]*)\](?::(\d+))?$/.exec(text) ?? [];
  const address = normalizeAddress(bracketed ?? text);
  if (address === undefined) return text.toLowerCase();
  return port === undefined ? address : hostPort(address, Number(port));
}
