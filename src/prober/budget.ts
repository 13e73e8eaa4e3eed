/** How many probes a second this host can bear (R17). */
import { readFileSync } from 'node:fs';

/** The kernel remembers a connection that ended with RST for 10 s (nf_conntrack_tcp_timeout_close). */
const CONNTRACK_HOLD_S = 10;

/** `budget`, less where that would fill more than `share` of the connection tracking table. At least one a second. */
export function hostBudget(budget: number, share: number, tableSize = conntrackSize()): number {
  const inTable = tableSize === undefined ? Number.POSITIVE_INFINITY : (tableSize * share) / CONNTRACK_HOLD_S;
  return Math.max(1, Math.min(budget, inTable));
}

/** Entries that the table takes; undefined where connections are not tracked. */
function conntrackSize(): number | undefined {
  try {
    const size = Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'));
    return Number.isFinite(size) && size > 0 ? size : undefined;
  } catch {
    return undefined;
  }
}
