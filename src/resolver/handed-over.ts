/** Questions that no answer thread can answer: for names of zones on demand (R33), and for names that are forwarded. */
import { allowed } from '../server/acl.js';
import type { ForeignQuestion, ForwardSettings, ReplyForeign } from '../server/answer-server.js';
import { Refusal } from '../server/refusal.js';
import type { Instant } from '../system/clock.js';
import type { ForwardLink } from './forward-link.js';
import type { Resolver } from './resolver.js';

const MAX_UDP_BYTES = 1_232;

/** Lies around whatever touches the resolver. */
interface Door {
  enter(): Instant;
  leave(now: Instant): void;
}

export class HandedOver {
  readonly #resolver: Resolver;
  readonly #forward: ForwardLink;
  readonly #door: Door;
  /** For what was handed over while a zone on demand went. */
  readonly #refusal = new Refusal(MAX_UDP_BYTES);

  constructor(resolver: Resolver, forward: ForwardLink, door: Door) {
    this.#resolver = resolver;
    this.#forward = forward;
    this.#door = door;
  }

  /** What answer threads hand over at present, and who answers it. */
  settings(): ForwardSettings | undefined {
    const forward = this.#forward.settings;
    const allow = forward?.allow ?? [];
    this.#resolver.lookUps.setForward(forward && allowed(allow));
    if (!this.#resolver.isOnDemand) return forward;
    return {
      allow,
      answer: (question, reply) => {
        if (this.#lookUp(question, reply)) return;
        if (forward !== undefined) forward.answer(question, reply);
        else reply(this.#refusal.of(question.query));
      },
    };
  }

  #lookUp(question: ForeignQuestion, reply: ReplyForeign): boolean {
    const now = this.#door.enter();
    const { lookUps } = this.#resolver;
    const before = lookUps.nextWake();
    const ours = lookUps.answer(question, reply, now);
    if (lookUps.nextWake() !== before) this.#door.leave(now);
    return ours;
  }
}
