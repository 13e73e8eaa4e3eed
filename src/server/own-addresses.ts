/** Knows the addresses that we listen on ourselves: an answer to one of them would be a loop. */
import { networkInterfaces } from 'node:os';
import type { SocketPlan } from './listen-plan.js';

const RESCAN_MS = 2_000;

export class OwnAddresses {
  /** Mostly one: a scan is cheaper than a set. */
  #ports: number[] = [];
  #concrete = new Set<string>();
  #wildcardPorts = new Set<number>();
  #local = new Set<string>();
  #scannedAt = Number.NEGATIVE_INFINITY;

  setPlans(plans: readonly SocketPlan[]): void {
    this.#ports = [...new Set(plans.map((p) => p.port))];
    this.#concrete = new Set(plans.filter((p) => !p.wildcard).map((p) => `${p.address}|${p.port}`));
    this.#wildcardPorts = new Set(plans.filter((p) => p.wildcard).map((p) => p.port));
  }

  /** Cheap: whether a closer look at this source port is called for. */
  suspect(port: number): boolean {
    for (let i = 0; i < this.#ports.length; i++) if (this.#ports[i] === port) return true;
    return false;
  }

  /** Whether `address:port` (v4-mapped given as IPv4, no scope) is one of our own listeners. `now` is monotonic ms. */
  has(address: string, port: number, now: number): boolean {
    if (this.#concrete.has(`${address}|${port}`)) return true;
    if (!this.#wildcardPorts.has(port)) return false;
    if (address.startsWith('127.') || address === '::1') return true;
    if (now - this.#scannedAt > RESCAN_MS) {
      this.#local = new Set(localAddresses().map((l) => l.address));
      this.#scannedAt = now;
    }
    return this.#local.has(address);
  }
}

/** Every address of this host's interfaces; `bind` carries the scope that a link-local address needs. */
export function localAddresses(): { address: string; bind: string; family: 4 | 6 }[] {
  const all: { address: string; bind: string; family: 4 | 6 }[] = [];
  for (const [name, entries] of Object.entries(networkInterfaces()))
    for (const e of entries ?? [])
      all.push(
        e.family === 'IPv4'
          ? { address: e.address, bind: e.address, family: 4 }
          : { address: e.address, bind: e.scopeid ? `${e.address}%${name}` : e.address, family: 6 },
      );
  return all;
}
