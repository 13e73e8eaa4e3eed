/** One list that Consul is asked for again and again, each time with the index that was seen (blocking queries). */
import type { Ms } from '../system/clock.js';
import type { ConsulClient, ConsulQuery, ConsulReply } from './consul-client.js';
import { isFailure } from './http-failure.js';
import { gateOf } from './source-gates.js';
import { type After, after as realAfter } from './timers.js';

/** A query is answered after so long when nothing changed. */
const WAIT_MS: Ms = 55_000;
/** The same where more watch one server than may at once. */
const TURN_MS: Ms = 2_000;
const ANSWER_MS: Ms = 10_000;
/**
 * A few answers may come at once, then so many: those that change something, and those that do not. A list that never
 * rests, or an index that moves for others, costs no more than that.
 */
const CHANGE_GAP_MS: Ms = 400;
const IDLE_GAP_MS: Ms = 1_000;
const BURST_MS: Ms = 1_000;
/** Of the time, a list may be worked at for so long. */
const COST_SHARE = 1 / 5;

export interface Watched {
  readonly client: ConsulClient;
  readonly origin: string;
  readonly path: string;
  readonly query: ConsulQuery;
}

/** Takes in an answer with a higher index; returns whether it changed anything, or what is wrong with it. */
export type Take = (reply: ConsulReply, index: bigint) => boolean | string;

/**
 * Goes on until `signal`, or until something is wrong: returns what.
 * @param from the index of the list that is known
 */
export async function watchList(
  { client, origin, path, query }: Watched,
  from: bigint,
  take: Take,
  signal: AbortSignal,
): Promise<string> {
  let index = from;
  let saved = BURST_MS;
  let last = performance.now();
  while (!signal.aborted) {
    const waiting = { ...query, index, wait: gateOf(origin).crowded ? TURN_MS : WAIT_MS };
    const reply = await client.get(origin, path, waiting, signal, ANSWER_MS);
    if (signal.aborted) break;
    if (isFailure(reply)) return `${path}: ${reply.reason}`;
    if (reply.index === undefined) return `${path}: no X-Consul-Index in the answer`;
    if (reply.index < index) return `${path}: the index went back from ${index} to ${reply.index}`;
    const began = performance.now();
    const taken = reply.index > index && take(reply, reply.index);
    if (typeof taken === 'string') return `${path}: ${taken}`;
    index = reply.index;
    const now = performance.now();
    saved = Math.min(BURST_MS, saved + now - last) - (taken ? CHANGE_GAP_MS : IDLE_GAP_MS);
    last = now;
    await sleep(Math.max(-saved, (now - began + reply.cost) / COST_SHARE), signal);
  }
  return 'stopped';
}

/** For so long, or until `signal` or `woken`. */
export function sleep(ms: Ms, signal: AbortSignal, woken?: Promise<void>, after: After = realAfter): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      callOff();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const callOff = after(ms, end);
    signal.addEventListener('abort', end, { once: true });
    void woken?.then(end);
  });
}
