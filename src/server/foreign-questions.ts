/** The control thread's side of handing over: a desk for each answer thread, and the ways that replies leave. */
import { isOpen } from '../answers/table-reader.js';
import { type Allowed, allowed, strangerLimit } from './acl.js';
import type { AnswerThread } from './answer-thread.js';
import { COUNTER, COUNTER_WORDS } from './counters.js';
import type { HandedOver } from './handover.js';
import { type ForeignQuestion, HandoverDesk } from './handover-desk.js';
import type { KeptAnswer } from './kept-answers.js';
import { loadLinuxCalls } from './linux-calls.js';
import type { RepliesMessage } from './messages.js';
import { Refusal } from './refusal.js';
import { ReplySocket } from './reply-socket.js';
import type { ForwardSettings } from './settings.js';

export interface ForeignQuestionsOptions {
  /** The descriptor of a batched thread's socket by its plan key; undefined when it is closed. */
  readonly descriptor: (thread: AnswerThread, key: string) => number | undefined;
  /** Bytes of the largest UDP reply. */
  readonly maxUdp: () => number;
  /** Those that are told what to keep. */
  readonly threads: () => readonly AnswerThread[];
}

export class ForeignQuestions {
  /** Rcodes of replies, as an answer thread counts its own. */
  readonly counters = new Uint32Array(COUNTER_WORDS);
  readonly #options: ForeignQuestionsOptions;
  readonly #desks = new Map<AnswerThread, HandoverDesk>();
  #settings: ForwardSettings | undefined;
  #allowed: Allowed | undefined;
  #open = false;
  #socket: ReplySocket | undefined;
  #refusal: Refusal | undefined;

  constructor(options: ForeignQuestionsOptions) {
    this.#options = options;
  }

  /** Whose questions are handed over; undefined: nobody's. */
  get allowed(): Allowed | undefined {
    return this.#allowed;
  }

  /** Tells which upstreams do not answer, a word for each group of them. */
  get outages(): Int32Array | undefined {
    return this.#settings?.outages;
  }

  /** Replies that the kernel did not take. */
  get sendErrors(): number {
    return this.#socket?.failures ?? 0;
  }

  set(settings: ForwardSettings | undefined): void {
    this.#settings = settings;
    this.#allowed = settings && allowed(settings.allow);
    this.#open = this.#allowed !== undefined && isOpen(this.#allowed);
  }

  /** Something was handed over by a thread, or may have been by one that died. */
  wake(thread: AnswerThread): void {
    let desk = this.#desks.get(thread);
    if (!desk) {
      const replies: RepliesMessage['replies'][number][] = [];
      const keeps: KeptAnswer[] = [];
      desk = new HandoverDesk(
        thread.handover,
        (question, reply) => {
          if (this.#settings) this.#settings.answer(this.#open ? limited(question) : question, reply);
          else reply(this.#refused(question));
        },
        (question, message, keep) => {
          if (keep) keeps.push(keep);
          if (question.told) return;
          if (message) this.#count(message);
          if (question.envelope.name.length > 0) this.#send(thread, question, message);
          else replies.push({ token: question.token, message });
        },
        () => {
          // First, so that a client that has its reply finds it kept.
          if (keeps.length > 0) this.keep(keeps.splice(0));
          this.#socket?.flush();
          if (replies.length > 0) thread.post({ type: 'replies', replies: replies.splice(0) });
        },
      );
      this.#desks.set(thread, desk);
    }
    desk.wake();
  }

  /** Upstreams' answers for every thread to give again: in an outage each has what any of them was asked for. */
  keep(answers: readonly KeptAnswer[]): void {
    for (const thread of this.#options.threads()) thread.post({ type: 'keep', answers });
  }

  /** The thread is gone for good. */
  forget(thread: AnswerThread): void {
    this.#desks.delete(thread);
  }

  /** It came before the thread knew that nobody answers it any more. */
  #refused({ query }: ForeignQuestion): Uint8Array | undefined {
    this.counters[COUNTER.refusedForeign]!++;
    this.#refusal ??= new Refusal(this.#options.maxUdp());
    return this.#refusal.of(query);
  }

  #count(message: Uint8Array): void {
    this.counters[COUNTER.rcode + (message[3]! & 15)]!++;
    if ((message[2]! & 2) !== 0) this.counters[COUNTER.truncated]!++;
  }

  #send(thread: AnswerThread, question: HandedOver, message: Uint8Array | undefined): void {
    if (!message) return;
    const { key } = question.envelope;
    const fd = this.#options.descriptor(thread, Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1'));
    if (fd === undefined) return;
    if (!this.#socket) {
      const calls = loadLinuxCalls();
      // It is there: a thread that has such an envelope has loaded it, too.
      if (typeof calls === 'string') return;
      this.#socket = new ReplySocket(calls, this.#options.maxUdp());
    }
    this.#socket.put(fd, question.envelope, message);
  }
}

/** Where anybody may ask. */
function limited(question: ForeignQuestion): ForeignQuestion {
  if (question.transport === 'tcp') return question;
  return { ...question, most: strangerLimit(question.peer, question.query.length) };
}
