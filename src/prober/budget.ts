/** How many probes a second this host can bear (R17). */
import { readFileSync } from 'node:fs';

/**
 * The kernel remembers a connection that ended with RST for 10 s (nf_conntrack_tcp_timeout_close), and counts it until
 * it is collected: 25 s were measured (bench/probe.mjs).
 */
const CONNTRACK_HOLD_S = 25;

/** `budget`, less where that would fill more than `share` of the connection tracking table. At least one a second. */
export function hostBudget(budget: number, share: number, tableSize = conntrackSize()): number {
  const inTable = tableSize === undefined ? Number.POSITIVE_INFINITY : (tableSize * share) / CONNTRACK_HOLD_S;
  return Math.max(1, Math.min(budget, inTable));
}

/** How full the connection tracking table is, 0 to 1; undefined where connections are not tracked. */
export function conntrackFill(): number | undefined {
  const size = conntrackSize();
  const used = readNumber('/proc/sys/net/netfilter/nf_conntrack_count');
  return size === undefined || used === undefined ? undefined : used / size;
}

/** Entries that the table takes; undefined where connections are not tracked. */
function conntrackSize(): number | undefined {
  const size = readNumber('/proc/sys/net/netfilter/nf_conntrack_max');
  return size === undefined || size === 0 ? undefined : size;
}

function readNumber(path: string): number | undefined {
  try {
    const value = Number(readFileSync(path, 'utf8'));
    return Number.isFinite(value) && value >= 0 ? value : undefined;
  } catch {
    return undefined;
  }
}
