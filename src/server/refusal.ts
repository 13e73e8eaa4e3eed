/** REFUSED for a question of no zone that was handed over while forwarding ended: as the answer threads say it (R26). */
import { EDE, RCODE } from '../dns/constants.js';
import { PARSED, Query } from '../dns/query.js';
import { FIXED_EDE_OPT_BYTES, Reply } from './reply.js';

export class Refusal {
  readonly #reply: Reply;
  readonly #query = new Query();

  /** `maxUdp`: the payload size that our OPT records offer. */
  constructor(maxUdp: number) {
    this.#reply = new Reply(maxUdp);
  }

  /** Undefined for what is no question. */
  of(message: Uint8Array): Uint8Array | undefined {
    const reply = this.#reply;
    const query = this.#query;
    if (query.parse(message, message.length) !== PARSED) return undefined;
    const out = new Uint8Array(query.questionEnd + FIXED_EDE_OPT_BYTES);
    reply.intoBytes(out);
    reply.begin(query.questionEnd);
    reply.rcode = RCODE.REFUSED;
    if (query.edns) {
      reply.addOptHead(query.dnssecOk, false);
      reply.addFixedEde(EDE.NOT_AUTHORITATIVE);
    }
    reply.flags = 0x8000 | ((message[2]! & 0x79) << 8) | (message[3]! & 0x10) | reply.rcode;
    return out.subarray(0, reply.end(message));
  }
}
