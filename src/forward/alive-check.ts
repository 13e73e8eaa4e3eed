/**
 * While nobody of a group answers, its servers are asked for something small now and then, so that a recovery is seen
 * whoever asks and however lately a name has failed. An answer says that the server is there, and no more: it may be
 * there and still know nothing, so one question of a client goes out then, and the others follow when that is answered.
 */
import { randomInt } from 'node:crypto';
import type { ListenAddress } from '../config/types.js';
import { TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import type { Ms } from '../system/clock.js';
import { type Cancel, exchangeTcp, exchangeUdp } from './exchange.js';
import type { UpstreamGroup } from './upstreams.js';

const FIRST_MS: Ms = 1_000;
const LONGEST_MS: Ms = 5_000;
const GROWTH = 1.5;

interface Watched {
  timer: NodeJS.Timeout;
  wait: Ms;
  rounds: number;
  cancels: Cancel[];
}

/** Calls `alive` once when there is a reply, whatever it says. */
export function askWhetherAlive(address: ListenAddress, exchange: typeof exchangeUdp, alive: () => void): Cancel {
  const query = encodeQuery({ id: randomInt(0x10000), name: '', type: TYPE.NS })!;
  return exchange(address, query, { reply: alive, failed: () => {}, forged: () => {} });
}

export class AliveCheck {
  readonly #groups = new Map<UpstreamGroup, Watched>();

  /** From now on until one of them answers a client's question; to be called while the group fails. */
  watch(group: UpstreamGroup): void {
    if (this.#groups.has(group)) return;
    const watched: Watched = {
      timer: setTimeout(() => this.#round(group), FIRST_MS),
      wait: FIRST_MS,
      rounds: 0,
      cancels: [],
    };
    this.#groups.set(group, watched);
  }

  close(): void {
    for (const watched of this.#groups.values()) end(watched);
    this.#groups.clear();
  }

  #round(group: UpstreamGroup): void {
    const watched = this.#groups.get(group);
    if (watched === undefined) return;
    end(watched);
    if (!group.failing) {
      this.#groups.delete(group);
      return;
    }
    // Where one transport brings nothing the other may.
    const exchange = watched.rounds++ % 2 === 0 ? exchangeUdp : exchangeTcp;
    watched.cancels = group.upstreams
      .filter(({ loop }) => !loop)
      .map(({ address }) => askWhetherAlive(address, exchange, () => group.noteAlive()));
    watched.wait = Math.min(watched.wait * GROWTH, LONGEST_MS);
    watched.timer = setTimeout(() => this.#round(group), watched.wait);
  }
}

function end(watched: Watched): void {
  clearTimeout(watched.timer);
  for (const cancel of watched.cancels) cancel();
  watched.cancels = [];
}
