/** REFUSED for a question of no zone that was handed over while forwarding ended: as the answer threads say it (R26). */
import { EDE, RCODE } from '../dns/constants.js';
import { PARSED, Query } from '../dns/query.js';
import { Plan } from './plan.js';

export class Refusal {
  readonly #plan: Plan;
  readonly #query = new Query();

  /** `maxUdp`: the payload size that our OPT records offer. */
  constructor(maxUdp: number) {
    this.#plan = new Plan(maxUdp);
  }

  /** Undefined for what is no question. */
  of(message: Uint8Array): Uint8Array | undefined {
    const plan = this.#plan;
    const query = this.#query;
    if (query.parse(message, message.length) !== PARSED) return undefined;
    plan.begin(query.questionEnd);
    plan.rcode = RCODE.REFUSED;
    if (query.edns) {
      plan.addOptHead(query.dnssecOk, false);
      plan.addFixedEde(EDE.NOT_AUTHORITATIVE);
    }
    plan.flags = 0x8000 | ((message[2]! & 0x79) << 8) | (message[3]! & 0x10) | plan.rcode;
    const out = new Uint8Array(plan.length);
    plan.write(message, [], out);
    return out;
  }
}
