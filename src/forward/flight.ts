/**
 * One question on its way, whoever asks it: tries over upstreams and transports until one answers. Earlier tries stay
 * open while later ones run, so that a slow upstream still gets its word in.
 */
import { randomInt } from 'node:crypto';
import { RCODE } from '../dns/constants.js';
import type { Ms } from '../system/clock.js';
import { askWhetherAlive } from './alive-check.js';
import { type Cancel, exchangeTcp, exchangeUdp } from './exchange.js';
import type { Question } from './question.js';
import { encodeUpstreamQuery, readCut, readReply, type UpstreamReply } from './upstream-message.js';
import type { Upstream, UpstreamGroup } from './upstreams.js';

/** After so long without an answer the next upstream is asked, too. */
const TRY_MS: Ms = 400;
/** RFC 9520 s.3.1: tries of one question at one server. */
const MAX_TRIES = 3;
/** So many messages that are no reply to what was asked: somebody guesses, and TCP leaves nothing to guess (RFC 5452 s.9.2). */
const MAX_FORGED = 16;
/** Askers have given up by then; what comes until now is still kept. */
const LATE_MS: Ms = 5_000;
/** While no upstream answers, nothing late is to be hoped for. */
const FAILING_LATE_MS: Ms = 2_000;
/** RCODEs of who stumbles over EDNS. */
const NOT_UNDERSTOOD: readonly number[] = [RCODE.FORMERR, RCODE.NOTIMP, RCODE.BADVERS];

export interface FlightResult {
  /** What an upstream said: data, or when none had any, its error. */
  readonly reply: UpstreamReply | undefined;
  /** Why there is no data. */
  readonly reason: string | undefined;
}

export interface FlightOptions {
  readonly question: Question;
  readonly group: UpstreamGroup;
  /** By TCP from the start: the client came by it. */
  readonly tcp: boolean;
  /** Boot time. */
  readonly now: () => Ms;
  /** An address of ours, by now: asking there would be a loop. */
  readonly isOurs: (upstream: Upstream) => boolean;
  /** Nobody waits for it: once none of the group answers, it is given up. */
  readonly isIdle: () => boolean;
  readonly done: (result: FlightResult) => void;
}

interface Try {
  readonly upstream: Upstream;
  readonly cancel: Cancel;
  /** It was counted as a failure when its time was over. */
  late: boolean;
}

export class Flight {
  readonly #options: FlightOptions;
  readonly #candidates: Upstream[];
  readonly #tries = new Map<Upstream, number>();
  /** They answered something of no use, or cannot be reached. */
  readonly #out = new Set<Upstream>();
  readonly #open = new Set<Try>();
  /** They left this name without an answer: whether they answer something else. */
  readonly #doubts = new Map<Upstream, { answers: boolean; cancel: Cancel }>();
  /** They did not understand the question with EDNS. */
  readonly #plain = new Set<Upstream>();
  #turn = 0;
  #best: UpstreamReply | undefined;
  #reason = 'no answer in time';
  #timer: NodeJS.Timeout | undefined;
  readonly #end: NodeJS.Timeout;
  #over = false;

  constructor(options: FlightOptions) {
    this.#options = options;
    this.#candidates = options.group.order().filter((upstream) => !options.isOurs(upstream));
    if (this.#candidates.length === 0) this.#reason = 'there is no upstream but ourselves';
    this.#end = setTimeout(() => this.#finish(undefined), options.group.failing ? FAILING_LATE_MS : LATE_MS);
    const due = options.group.due(options.now());
    if (due !== undefined && !options.isOurs(due)) this.#ask(due, options.tcp, !due.isPlain(options.now()));
    this.#next();
  }

  /** What has been heard so far that is better than nothing: a cut reply, an upstream's error. */
  get best(): UpstreamReply | undefined {
    return this.#best;
  }

  /** Why there is no answer yet. */
  get reason(): string {
    return this.#reason;
  }

  /** The process ends, or the configuration has changed. */
  cancel(): void {
    this.#close();
  }

  /** Asks the next upstream, and sees to it that another one follows. */
  #next(): void {
    clearTimeout(this.#timer);
    if (this.#over) return;
    const upstream = this.#choose();
    if (upstream !== undefined) {
      const { now, tcp } = this.#options;
      const tries = this.#tries.get(upstream) ?? 0;
      // Where one transport brings nothing the other may: a firewall, a lost fragment.
      this.#ask(upstream, tcp ? tries === 0 : tries === MAX_TRIES - 1, !upstream.isPlain(now()));
    } else if (this.#open.size === 0) {
      this.#finish(undefined);
      return;
    }
    if (!this.#over) this.#timer = setTimeout(() => this.#late(), TRY_MS);
  }

  #choose(): Upstream | undefined {
    const { length } = this.#candidates;
    for (let i = 0; i < length; i++) {
      const upstream = this.#candidates[this.#turn++ % length]!;
      if (!this.#out.has(upstream) && (this.#tries.get(upstream) ?? 0) < MAX_TRIES) return upstream;
    }
    return undefined;
  }

  /** Those asked last have not answered in their time. */
  #late(): void {
    for (const open of this.#open) {
      if (open.late) continue;
      open.late = true;
      this.#silent(open.upstream);
    }
    const { group, isIdle } = this.#options;
    if (group.failing && isIdle()) this.#finish(undefined);
    else this.#next();
  }

  /** One name may be one that brings no answer: it says that its upstream is dead once, and again only if nothing else is answered. */
  #silent(upstream: Upstream): void {
    const known = this.#doubts.get(upstream);
    if (known?.answers) return;
    upstream.failed('no answer in time', false, this.#options.now());
    if (known !== undefined || upstream.down) return;
    const doubt = { answers: false, cancel: () => {} };
    this.#doubts.set(upstream, doubt);
    doubt.cancel = askWhetherAlive(upstream.address, exchangeUdp, () => {
      doubt.answers = true;
    });
  }

  #ask(upstream: Upstream, tcp: boolean, edns: boolean): void {
    const { question, now } = this.#options;
    this.#tries.set(upstream, (this.#tries.get(upstream) ?? 0) + 1);
    upstream.queries++;
    const query = encodeUpstreamQuery(question, randomInt(0x10000), edns);
    let forged = 0;
    const one: Try = {
      upstream,
      late: false,
      cancel: (tcp ? exchangeTcp : exchangeUdp)(upstream.address, query, {
        reply: (message) => {
          this.#open.delete(one);
          this.#heard(upstream, message, tcp, edns);
        },
        failed: (reason, here) => {
          this.#open.delete(one);
          if (here) {
            this.#reason = `no socket on this host (${reason})`;
            this.#useless(upstream);
            return;
          }
          // The other transport is only a last try: its failure tells less.
          if (tcp === this.#options.tcp) this.#reason = reason;
          // By TCP alone it cannot be reached: many a forwarder in a router is so.
          if (tcp) {
            if (this.#options.tcp && this.#tries.get(upstream) === 1) this.#ask(upstream, false, edns);
            else this.#useless(upstream);
            return;
          }
          upstream.failed(reason, true, now());
          this.#useless(upstream);
        },
        forged: () => {
          upstream.forged++;
          if (tcp || ++forged < MAX_FORGED) return;
          one.cancel();
          this.#open.delete(one);
          this.#ask(upstream, true, edns);
        },
      }),
    };
    this.#open.add(one);
  }

  #heard(upstream: Upstream, message: Uint8Array, tcp: boolean, edns: boolean): void {
    const { question, group, now } = this.#options;
    const reply = readReply(message, question) ?? (tcp ? undefined : readCut(message, question));
    if (reply === undefined) {
      this.#reason = 'a reply that cannot be read';
      upstream.failed(this.#reason, false, now());
      this.#useless(upstream);
      return;
    }
    const { rcode } = reply;
    if (edns && NOT_UNDERSTOOD.includes(rcode)) {
      this.#plain.add(upstream);
      this.#ask(upstream, tcp, false);
      return;
    }
    group.succeeded(upstream);
    const data = rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN;
    // It may have been the question that was not understood, or what a client put into its OPT record.
    if (data && this.#plain.delete(upstream) && question.options.length === 0) upstream.avoidEdns(now());
    if (reply.truncated && !tcp && data) {
      // What there is goes out, marked as cut, when no more is to be had.
      this.#best = reply;
      this.#ask(upstream, true, edns);
      return;
    }
    if (data) {
      this.#finish(reply);
      return;
    }
    this.#best ??= reply;
    this.#reason = 'the upstream failed';
    this.#useless(upstream);
  }

  #useless(upstream: Upstream): void {
    this.#out.add(upstream);
    this.#next();
  }

  #finish(reply: UpstreamReply | undefined): void {
    if (this.#over) return;
    this.#close();
    const result = reply ?? this.#best;
    const data = result !== undefined && (result.rcode === RCODE.NOERROR || result.rcode === RCODE.NXDOMAIN);
    this.#options.done({ reply: result, reason: data ? undefined : this.#reason });
  }

  #close(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#end);
    for (const { cancel } of [...this.#open, ...this.#doubts.values()]) cancel();
    this.#open.clear();
  }
}
