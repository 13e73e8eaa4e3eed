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
/** What gets no answer is tried a second time (probes/tcp.ts). */
const TRIES = 2;
/** More and more without an answer is believed over so many seconds: no single one tells. */
const BELIEVED_S = 4;
/** What the first seconds of an outage leave in the table before it is believed has room in the rest. */
const USED = 0.95;

/**
 * How many probes a second this host can bear: as many as it is given, less where they would fill more than a share of
 * the connection tracking table. Those without an answer fill it most, so that in an outage there are fewer.
 */
export class HostBudget {
  readonly #most: number;
  /** Entries that are ours; infinite where there is no table. */
  readonly #room: number;
  /** The share of probes without an answer: it rises as they come, and falls as the kernel forgets them. */
  #silent = 0;
  #ended = 0;
  #unanswered = 0;

  /**
   * @param most probes a second
   * @param share of the table; 1 is all of it, and then it sets no bound
   * @param tableSize what the table takes, undefined where connections are not tracked
   */
  constructor(most: number, share: number, tableSize = conntrackSize()) {
    this.#most = most;
    this.#room = tableSize === undefined || share >= 1 ? Number.POSITIVE_INFINITY : tableSize * share * USED;
  }

  /** Probes a second, at least one. */
  get rate(): number {
    const entrySeconds = (1 - this.#silent) * ENDED_S + this.#silent * TRIES * UNANSWERED_S;
    return Math.max(1, Math.min(this.#most, this.#room / entrySeconds));
  }

  /** To be told once a second: how many probes have ended since the start, and how many of them without an answer. */
  note(ended: number, unanswered: number): void {
    const probes = ended - this.#ended;
    const silent = probes === 0 ? 0 : (unanswered - this.#unanswered) / probes;
    if (silent > this.#silent) this.#silent += (silent - this.#silent) / BELIEVED_S;
    else this.#silent = Math.max(silent, this.#silent - 1 / UNANSWERED_S);
    this.#ended = ended;
    this.#unanswered = unanswered;
  }
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
