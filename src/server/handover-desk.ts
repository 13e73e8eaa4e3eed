/** Takes what one answer thread hands over and gives it to whoever answers, a few at a time. */

import { type HandedOver, type HandoverMemory, HandoverReader } from './handover.js';
import type { KeptAnswer } from './kept-answers.js';
import type { Peer, Transport } from './reply.js';

/** So many in one turn; then the rest of the control thread's work has its turn. */
const AT_ONCE = 64;

/** A question that no zone owns, of a client that may ask for such. */
export interface ForeignQuestion {
  /** The whole message as it came. */
  readonly query: Uint8Array;
  readonly transport: Transport;
  readonly peer: Peer;
  /** Index of the listen address that was asked. */
  readonly listen: number;
  /** Most bytes of the reply, where its transport would allow for more. */
  readonly most?: number;
  /** The thread has answered it from what it keeps: a reply brings `keep` at most. */
  readonly told?: boolean;
}

/** Answers a question: calls `reply` once, with the whole message, or with nothing to drop it; `keep` is for threads to give again. */
export type AnswerForeign = (question: ForeignQuestion, reply: ReplyForeign) => void;

export type ReplyForeign = (message: Uint8Array | undefined, keep?: KeptAnswer) => void;

export class HandoverDesk {
  readonly #reader: HandoverReader;
  readonly #answer: AnswerForeign;
  readonly #send: (question: HandedOver, message: Uint8Array | undefined, keep: KeptAnswer | undefined) => void;
  readonly #flush: () => void;
  #draining = false;

  /** `send` gets each question's reply; `flush` is called once after replies that came at once. */
  constructor(
    memory: HandoverMemory,
    answer: AnswerForeign,
    send: (question: HandedOver, message: Uint8Array | undefined, keep: KeptAnswer | undefined) => void,
    flush: () => void,
  ) {
    this.#reader = new HandoverReader(memory);
    this.#answer = answer;
    this.#send = send;
    this.#flush = flush;
  }

  /** The thread has woken us, or has been started again. */
  wake(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#drain();
  }

  #drain(): void {
    let inTurn = true;
    for (let i = 0; i < AT_ONCE; i++) {
      const question = this.#reader.take();
      if (!question) {
        if (!this.#reader.sleep()) continue;
        this.#draining = false;
        break;
      }
      let open = true;
      const reply: ReplyForeign = (message, keep) => {
        if (!open) return;
        open = false;
        this.#reader.done(question);
        this.#send(question, message, keep);
        if (!inTurn) this.#flush();
      };
      try {
        this.#answer(question, reply);
      } catch (error) {
        // A bug on one question is told, and the next ones are answered.
        reply(undefined);
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    inTurn = false;
    this.#flush();
    if (this.#draining) setImmediate(() => this.#drain());
  }
}
