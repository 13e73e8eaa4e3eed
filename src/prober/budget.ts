/** How many probes a second this host can bear (R17). */
import { readFileSync } from 'node:fs';

/**
 * The kernel remembers a connection that ended with RST for 10 s (nf_conntrack_tcp_timeout_close), and one that nobody
 * answered for 120 s (nf_conntrack_tcp_timeout_syn_sent). It counts both until they are collected, which is once a minute
 * where most other connections last: 57 s were measured at 100 connections a second.
 */
const COLLECTED_S = 60;
const ENDED_S = 10 + COLLECTED_S;
const UNANSWERED_S = 120 + COLLECTED_S;
/** What gets no answer is tried a second time (probes/attempt.ts). */
const TRIES = 2;
/** More and more without an answer is believed over so many seconds: no single one tells. */
const BELIEVED_S = 4;
/** What the first seconds of an outage leave in the table before it is believed has room in the rest. */
const USED = 0.95;
/** What R17 gives to a prober whatever else is in the table. */
const USUAL_SHARE = 0.05;
/** More than that fills a whole table before the first entry is forgotten. */
const FULL_IN_S = 10;
/** A table this full, of whatever, takes less and less, and from the other on no more than the usual share. */
const FILLING = 0.6;
const FULL = 0.9;
/** The kernel collects by the ten thousand, and what seems free is not: the rate grows back by so much a second. */
const GROWTH = 1.01;

/** In entries. */
export interface ConntrackTable {
  /** What it takes. */
  readonly size: number;
  readonly used: number;
}

/**
 * How many probes a second this host can bear: as many as it is given, less where they would fill more than a share of
 * the connection tracking table. Those without an answer fill it most, so that in an outage there are fewer. A full
 * table drops packets, and a probe whose packets are dropped fails for no fault of its endpoint: so no share, not even
 * all of it, is taken where the table has no room.
 */
export class HostBudget {
  readonly #most: number;
  readonly #share: number;
  /** Entries that the table takes; infinite where there is none. */
  #size: number;
  /** Of a probe, connections without an answer: they rise as they come, and fall as the kernel forgets them. */
  #silent = 0;
  #ended = 0;
  #unanswered = 0;
  /** Probes a second that the table as a whole bears. */
  #eased: number;

  /**
   * @param most probes a second
   * @param share of the table; 1 is all of it: then only how full it is sets a bound
   * @param tableSize what the table takes, undefined where connections are not tracked
   */
  constructor(most: number, share: number, tableSize = conntrack()?.size) {
    this.#most = most;
    this.#share = share;
    this.#size = tableSize ?? Number.POSITIVE_INFINITY;
    this.#eased = most;
  }

  /** Probes a second, at least one. */
  get rate(): number {
    const bound = this.#share >= 1 ? Number.POSITIVE_INFINITY : this.#rateWithin(this.#share);
    return Math.max(1, Math.min(this.#most, bound, Math.max(this.#usual, this.#eased)));
  }

  /**
   * To be told once a second: how many probes have ended since the start, how many of their connections nobody
   * answered, and the table, where there is one by now.
   */
  note(ended: number, unanswered: number, table?: ConntrackTable): void {
    const probes = ended - this.#ended;
    const silent = probes === 0 ? 0 : (unanswered - this.#unanswered) / probes;
    if (silent > this.#silent) this.#silent += (silent - this.#silent) / BELIEVED_S;
    else this.#silent = Math.max(silent, this.#silent - TRIES / UNANSWERED_S);
    this.#ended = ended;
    this.#unanswered = unanswered;
    this.#size = table?.size ?? this.#size;
    const fill = table === undefined ? 0 : table.used / table.size;
    const grown = Math.min(this.#most, Math.max(this.#usual, this.#eased) * GROWTH);
    const left = Math.max(0, (FULL - fill) / (FULL - FILLING));
    this.#eased = fill < FILLING ? grown : Math.min(grown, (this.#size / FULL_IN_S) * left);
  }

  /** What it may use whatever else is in the table. */
  get #usual(): number {
    return this.#rateWithin(Math.min(USUAL_SHARE, this.#share));
  }

  #rateWithin(share: number): number {
    const answered = Math.max(0, 1 - this.#silent / TRIES);
    return (this.#size * share * USED) / (answered * ENDED_S + this.#silent * UNANSWERED_S);
  }
}

/** The connection tracking table; undefined where connections are not tracked. */
export function conntrack(): ConntrackTable | undefined {
  const size = readNumber('/proc/sys/net/netfilter/nf_conntrack_max');
  const used = readNumber('/proc/sys/net/netfilter/nf_conntrack_count');
  return size === undefined || size === 0 || used === undefined ? undefined : { size, used };
}

function readNumber(path: string): number | undefined {
  try {
    const value = Number(readFileSync(path, 'utf8'));
    return Number.isFinite(value) && value >= 0 ? value : undefined;
  } catch {
    return undefined;
  }
}
