/**
 * One request, from the first try to the last. A try that fails before anything was sent is followed by one elsewhere,
 * always; one that fails later, or stays silent, only when the method may be repeated (RFC 9110 s.9.2.2) and its body
 * can be had again. When a response has begun, the rest of it is that endpoint's, and so is its failure.
 */
import type { Dispatcher } from 'undici';
import type { Ms } from '../system/clock.js';
import { deadline } from './deadline.js';
import { type Endpoint, endpointKey } from './endpoint.js';
import { type FailedTry, type Failure, failedTry, failureOf, isLocal, UnreachableError } from './errors.js';
import { modern, RequestController } from './handler.js';
import { ConnectionGone, type HttpConnection } from './http-connection.js';
import type { Tls } from './open-socket.js';
import type { Settings } from './options.js';
import type { Pools } from './pools.js';
import { ReplayBody } from './replay-body.js';
import type { RetryBudget } from './retry-budget.js';
import { type Located, now, ROUND_PAUSES_MS, type Services, type Wanted } from './services.js';

export interface RunContext {
  readonly settings: Settings;
  readonly services: Services;
  readonly pools: Pools;
  readonly budget: RetryBudget;
}

/** Where a request goes, by its URL. */
export interface Destination extends Wanted {
  readonly origin: string;
  /** For `https:`: by the name that was resolved. */
  readonly tls: ((name: string) => Tls) | undefined;
}

interface Try {
  readonly endpoint: Endpoint;
  readonly key: string;
  readonly name: string;
  readonly startedAt: Ms;
  readonly stop: AbortController;
  readonly abandoned: () => void;
  connection: HttpConnection | undefined;
  controller: Dispatcher.DispatchController | undefined;
  /** Of the connection, then of the answer. Calls it off. */
  calm: () => void;
  silent: boolean;
}

/** Another connection is begun beside one that is not made by then; whichever is first is used (compare RFC 8305 s.5). */
const SECOND_CONNECTION_MS: Ms = 300;
/** A try that was cut off earlier says nothing about its endpoint. */
const SLOW_MS: Ms = 1_000;
/** When more may not be sent yet, it is seen to again. */
const BUDGET_MS: Ms = 250;
/** Connections that were kept alive and had ended count as no tries. So many in a row are no accident. */
const MAX_GONE = 20;

export class RequestRun {
  readonly #context: RunContext;
  readonly #to: Destination;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #controller = new RequestController((reason) => this.#end(reason));
  readonly #body: ReplayBody;
  readonly #repeatable: boolean;
  readonly #over: (failed: boolean) => void;
  readonly #tries = new Set<Try>();
  readonly #tried = new Set<string>();
  readonly #failed: FailedTry[] = [];
  #name: string | undefined;
  #count = 0;
  #gone = 0;
  #rounds = 0;
  #sent = false;
  #winner: Try | undefined;
  #ended = false;
  #inTime: () => void = () => {};
  #pause: NodeJS.Timeout | undefined;

  /** `over` is called once, when the program has had its last call. */
  constructor(
    context: RunContext,
    to: Destination,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    over: (failed: boolean) => void,
  ) {
    this.#context = context;
    this.#to = to;
    this.#options = options;
    this.#handler = modern(handler);
    this.#repeatable = context.settings.retryMethods.has(options.method);
    this.#body = new ReplayBody(options.body, this.#repeatable ? context.settings.maxReplay : 0);
    this.#over = over;
  }

  start(): void {
    const { settings, budget } = this.#context;
    const timeout = this.#options.headersTimeout ?? settings.timeout;
    budget.asked();
    try {
      this.#handler.onRequestStart?.(this.#controller, {});
    } catch (error) {
      this.#end(error as Error);
    }
    if (this.#ended) return;
    if (timeout > 0) this.#inTime = deadline(timeout, () => this.#timedOut(timeout));
    void this.#next();
  }

  /** The program's dispatcher is destroyed. */
  destroy(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** `silent`: the try that this one is sent beside. */
  async #next(silent?: Try): Promise<void> {
    const { services, settings, budget } = this.#context;
    let located: Located;
    try {
      located = await services.locate(this.#to);
    } catch (error) {
      if (this.#tries.size === 0) this.#end(error as Error);
      return;
    }
    this.#name = located.name;
    if (!this.#mayTry()) return;
    const endpoint = this.#count < settings.attempts ? services.next(located, this.#tried) : undefined;
    if (endpoint !== undefined) {
      // What is taken away from one that alone is silent is no more work for the service.
      const free = silent === undefined || services.isAlone(this.#to, silent.endpoint, silent.startedAt);
      if (!free && !budget.take(now())) {
        silent!.calm = deadline(BUDGET_MS, () => this.#isSilent(silent!));
        return;
      }
      if (silent !== undefined) services.counters.hedges++;
      void this.#try(located.name, endpoint);
      return;
    }
    // What is under way may yet come to something; if it does not, it is continued from there.
    if (this.#tries.size > 0 || this.#pause !== undefined) return;
    const pause = this.#count < settings.attempts ? ROUND_PAUSES_MS[this.#rounds++] : undefined;
    if (pause === undefined) {
      this.#giveUp('every try failed', undefined);
      return;
    }
    this.#tried.clear();
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      void this.#next();
    }, pause);
  }

  /** Whether anything may be sent yet. */
  #mayTry(): boolean {
    if (this.#ended || this.#winner !== undefined) return false;
    return this.#repeatable ? this.#body.replayable : !this.#sent && !this.#isOnItsWay();
  }

  /** Whether a try has a connection, and has not been silent for long. */
  #isOnItsWay(): boolean {
    return [...this.#tries].some(({ connection, silent }) => connection !== undefined && !silent);
  }

  async #try(name: string, endpoint: Endpoint): Promise<void> {
    const { services, pools } = this.#context;
    const key = endpointKey(endpoint);
    this.#count++;
    this.#tried.add(key);
    const one: Try = {
      ...{ endpoint, key, name, startedAt: now(), stop: new AbortController(), abandoned: services.trying(endpoint) },
      ...{ connection: undefined, controller: undefined, calm: () => {}, silent: false },
    };
    this.#tries.add(one);
    const { origin, host, tls } = this.#to;
    let connection = pools.take(origin, endpoint);
    if (connection === undefined) {
      one.calm = deadline(SECOND_CONNECTION_MS, () => void this.#next());
      try {
        connection = await pools.open(origin, host, endpoint, tls?.(name), one.stop.signal);
      } catch (error) {
        if (this.#tries.has(one)) this.#tryFailed(one, error as Error);
        return;
      }
      one.calm();
    }
    if (!this.#tries.has(one) || !this.#mayTry() || this.#isOnItsWay()) {
      pools.release(origin, connection);
      this.#leave(one);
      return;
    }
    this.#send(one, connection);
  }

  #send(one: Try, connection: HttpConnection): void {
    const { hedgeAfter } = this.#context.settings;
    one.connection = connection;
    if (!this.#repeatable) this.#leaveOthers(one);
    if (hedgeAfter > 0) one.calm = deadline(hedgeAfter, () => this.#isSilent(one));
    connection.dispatch({ ...this.#options, body: this.#body.read() ?? null, headersTimeout: 0 }, this.#follow(one));
  }

  #follow(one: Try): Dispatcher.DispatchHandler {
    const isWinner = (): boolean => this.#winner === one && !this.#ended;
    return {
      onRequestStart: (controller) => {
        one.controller = controller;
        if (this.#tries.has(one) && !this.#ended) this.#sent = true;
        else controller.abort(new Error('another endpoint answered'));
      },
      onResponseStart: (controller, status, headers, message) => {
        if (!this.#take(one, controller)) return;
        this.#handler.onResponseStart?.(this.#controller, status, headers, message);
      },
      onRequestUpgrade: (controller, status, headers, socket) => {
        if (!this.#take(one, controller)) socket.destroy();
        else {
          this.#handler.onRequestUpgrade?.(this.#controller, status, headers, socket);
          this.#finish(false);
        }
      },
      onResponseData: (_, chunk) => {
        if (isWinner()) this.#handler.onResponseData?.(this.#controller, chunk);
      },
      onResponseEnd: (_, trailers) => {
        one.connection!.answers++;
        // Whether the connection stays open is settled when this call returns.
        queueMicrotask(() => this.#context.pools.release(this.#to.origin, one.connection!));
        if (!isWinner()) return;
        this.#finish(false);
        this.#handler.onResponseEnd?.(this.#controller, trailers);
      },
      onResponseError: (_, error) => {
        if (this.#winner === one) this.#broken(one, error);
        else if (this.#tries.has(one)) this.#tryFailed(one, error);
      },
    };
  }

  /** Its response begins: the others are left. Whether it is the first to answer. */
  #take(one: Try, controller: Dispatcher.DispatchController): boolean {
    if (this.#winner === one) return !this.#ended;
    this.#context.services.answered(this.#to, one.endpoint);
    if (this.#ended || this.#winner !== undefined || !this.#tries.has(one)) {
      controller.abort(new Error('another endpoint answered'));
      return false;
    }
    this.#winner = one;
    this.#inTime();
    clearTimeout(this.#pause);
    one.calm();
    this.#leaveOthers(one);
    this.#controller.lead(controller);
    return true;
  }

  /** It was sent, and there is no answer yet. */
  #isSilent(one: Try): void {
    const { services } = this.#context;
    if (this.#ended || !this.#tries.has(one)) return;
    if (!one.silent && !services.answeredSince(one.endpoint, one.startedAt)) services.holdBack(this.#to, one.endpoint);
    one.silent = true;
    if (this.#repeatable && !this.#options.upgrade && this.#body.complete && this.#mayTry()) void this.#next(one);
  }

  #tryFailed(one: Try, error: Error): void {
    const failure = failureOf(error);
    this.#leave(one);
    if (this.#ended) return;
    const sent = one.controller !== undefined;
    const kept = (one.connection?.answers ?? 0) > 0;
    if (error instanceof ConnectionGone && this.#gone++ < MAX_GONE) {
      this.#count--;
      this.#tried.delete(one.key);
      void this.#next();
      return;
    }
    // What is wrong with the request itself, or with the answer, is the same everywhere.
    const own = this.#body.error ?? (one.connection !== undefined && failure === 'other' ? error : undefined);
    if (own !== undefined) {
      this.#end(own as Error);
      return;
    }
    this.#failed.push(failedTry(one.endpoint, failure, error));
    this.#context.services.counters.failures[failure]++;
    // A connection that was kept alive may just have been closed: the endpoint is as good as before.
    if (sent && kept && failure === 'reset') this.#tried.delete(one.key);
    else if (!isLocal(error)) this.#blame(one, failure);
    if (this.#mayTry()) void this.#next();
    else if (this.#tries.size === 0) this.#giveUp('it was sent, and may not be sent again', error);
  }

  /** The response had begun. It is never asked for again: the program has seen a part of it. */
  #broken(one: Try, error: Error): void {
    const failure = failureOf(error);
    if (failure !== 'other' && !this.#controller.aborted) this.#blame(one, failure);
    if (this.#ended) return;
    this.#finish(!this.#controller.aborted);
    this.#handler.onResponseError?.(this.#controller, error);
  }

  #blame(one: Try, failure: Failure): void {
    this.#context.services.failed(this.#to, one.name, one.endpoint, failure);
  }

  #timedOut(timeout: Ms): void {
    const late = Object.assign(new Error(`no answer within ${timeout} ms`), { code: 'ETIMEDOUT' });
    for (const one of [...this.#tries]) {
      this.#failed.push(failedTry(one.endpoint, 'timeout', late));
      this.#context.services.counters.failures.timeout++;
      const dead =
        now() - one.startedAt >= SLOW_MS && !this.#context.services.answeredSince(one.endpoint, one.startedAt);
      if (dead) this.#blame(one, 'timeout');
    }
    this.#giveUp(late.message, late);
  }

  /** Another one answered, or the request is over. A long silence is told of when somebody else did answer. */
  #leaveOthers(winner: Try | undefined): void {
    for (const one of [...this.#tries]) {
      if (one === winner) continue;
      const dead = one.silent && !this.#context.services.answeredSince(one.endpoint, one.startedAt);
      if (dead && winner !== undefined) {
        this.#context.services.counters.failures.timeout++;
        this.#blame(one, 'timeout');
      }
      this.#leave(one);
      one.stop.abort(new Error('another endpoint answered'));
      one.controller?.abort(new Error('another endpoint answered'));
    }
  }

  #leave(one: Try): void {
    one.calm();
    this.#tries.delete(one);
    one.abandoned();
  }

  #giveUp(why: string, cause: Error | undefined): void {
    this.#end(
      new UnreachableError(this.#name ?? this.#to.host, this.#failed, why, cause === undefined ? undefined : { cause }),
    );
  }

  /** Without a response. */
  #end(error: Error): void {
    if (this.#ended) return;
    this.#finish(!this.#controller.aborted);
    this.#handler.onResponseError?.(this.#controller, error);
  }

  #finish(failed: boolean): void {
    this.#ended = true;
    this.#inTime();
    clearTimeout(this.#pause);
    this.#leaveOthers(this.#winner);
    if (this.#winner !== undefined) this.#leave(this.#winner);
    this.#body.close();
    this.#over(failed);
  }
}
