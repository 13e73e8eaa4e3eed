/** One question to the host's name servers, as a stub resolver asks it. */
import { randomInt } from 'node:crypto';
import { exchangeTcp, exchangeUdp } from '../ask/exchange.js';
import { showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { RCODE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import type { Ms } from '../system/clock.js';
import { type Reply, readReply, showFailure } from './message.js';

/** One server's time for one question. A datagram is sent twice in it. */
const TRY_MS: Ms = 1_000;
/** Every server is asked so many times before the question fails. */
const ROUNDS = 2;
const PAYLOAD = 1232;

/** No server gave an answer; the message says why, server by server. */
export class NoDnsAnswer extends Error {}

export interface NameQuestion {
  readonly name: string;
  readonly type: number;
  /** Over TCP at once. */
  readonly tcp?: boolean;
}

/** NOERROR or NXDOMAIN of the first server that says either. Rejects with NoDnsAnswer. */
export async function askName(question: NameQuestion, servers: readonly ListenAddress[]): Promise<Reply> {
  const reasons = new Map<string, string>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const server of servers) {
      try {
        const reply = await askServer(question, server);
        if (reply.rcode === RCODE.NOERROR || reply.rcode === RCODE.NXDOMAIN) return reply;
        // As a C library does: this server cannot tell, another one may.
        reasons.set(showListen(server), showFailure(reply));
      } catch (error) {
        reasons.set(showListen(server), (error as Error).message);
      }
    }
  }
  throw new NoDnsAnswer([...reasons].map(([server, reason]) => `${server}: ${reason}`).join('; '));
}

async function askServer({ name, type, tcp }: NameQuestion, server: ListenAddress): Promise<Reply> {
  const id = randomInt(0x10000);
  const query = encodeQuery({ id, name, type, edns: { payload: PAYLOAD } });
  if (query === undefined) throw new NoDnsAnswer(`${name} is not a domain name`);
  const options = { server, timeoutMs: TRY_MS, accept: (bytes: Buffer) => readReply(bytes, id, name, type) };
  const reply = tcp ? undefined : await exchangeUdp(query, options);
  return reply === undefined || reply.truncated ? await exchangeTcp(query, options) : reply;
}
