/**
 * Whether an upstream passes questions on to us: each is asked for a name that nobody else can know, and who sees that
 * name come in knows. Two servers that forward to each other would ask for ever otherwise.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import type { Ms } from '../system/clock.js';
import { type Cancel, exchangeUdp } from './exchange.js';
import type { Upstream } from './upstreams.js';

/** Below a name that is reserved, and that resolvers pass on like any other (RFC 6761 s.6.5). */
const PARENT = 'loop-check.example';
const PATIENCE_MS: Ms = 3_000;

export class LoopCheck {
  /** First label of the name that an upstream was asked for, in the letters of the wire. */
  readonly #asked = new Map<string, { readonly upstream: Upstream; seen: boolean }>();
  readonly #cancels = new Set<Cancel>();

  /** Asks an upstream. One that was found to loop is used again when the name did not come back. */
  ask(upstream: Upstream): void {
    const label = randomBytes(8).toString('hex');
    const one = { upstream, seen: false };
    this.#asked.set(label, one);
    const name = `${label}.${PARENT}`;
    const query = encodeQuery({ id: randomInt(0x10000), name, type: TYPE.TXT })!;
    const end = (): void => {
      clearTimeout(timer);
      cancel();
      this.#asked.delete(label);
      this.#cancels.delete(end);
    };
    const timer = setTimeout(end, PATIENCE_MS);
    const cancel = exchangeUdp(upstream.address, query, {
      reply: () => {
        upstream.loop = one.seen;
        end();
      },
      failed: end,
      forged: () => {},
    });
    this.#cancels.add(end);
  }

  /** Whether a name in wire form is one that was asked for: then its upstream loops. */
  sees(name: string): boolean {
    const one = this.#asked.get(name.slice(1, 17));
    if (one === undefined || name.slice(17) !== TAIL) return false;
    one.seen = true;
    one.upstream.loop = true;
    return true;
  }

  close(): void {
    for (const end of [...this.#cancels]) end();
  }
}

const TAIL = `\x0aloop-check\x07example\0`;
