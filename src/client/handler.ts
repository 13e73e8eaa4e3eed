/** Handlers of dispatchers: the form of undici 7, and the older one, which Node 20's and 22's own `fetch` has. */
import type { Dispatcher } from 'undici';

type Handler = Dispatcher.DispatchHandler;
type Controller = Dispatcher.DispatchController;

/** In the newer form. */
export function modern(handler: Handler): Handler {
  if (handler.onRequestStart !== undefined) return handler;
  return {
    onRequestStart(controller) {
      handler.onConnect?.((reason) => controller.abort(reason ?? abortError()));
    },
    onRequestUpgrade(controller, statusCode, _headers, socket) {
      handler.onUpgrade?.(statusCode, raw(controller.rawHeaders), socket);
    },
    onResponseStart(controller, statusCode, _headers, statusMessage) {
      handler.onResponseStarted?.();
      const headers = raw(controller.rawHeaders);
      const goOn = handler.onHeaders?.(statusCode, headers, () => controller.resume(), statusMessage ?? '');
      if (goOn === false) controller.pause();
    },
    onResponseData(controller, chunk) {
      if (handler.onData?.(chunk) === false) controller.pause();
    },
    onResponseEnd(controller) {
      handler.onComplete?.(raw(controller.rawTrailers) as never);
    },
    onResponseError(_controller, error) {
      handler.onError?.(error);
    },
  };
}

/** Names and values in turn, as they came. */
function raw(headers: Controller['rawHeaders']): Buffer[] {
  return Array.isArray(headers) ? (headers as Buffer[]) : [];
}

export function abortError(): Error {
  return new DOMException('This operation was aborted', 'AbortError');
}

/** What a program holds of its request while tries come and go: it leads to the one that answers. */
export class RequestController implements Controller {
  #target: Controller | undefined;
  #paused = false;
  #aborted = false;
  #reason: Error | null = null;
  readonly #onAbort: (reason: Error) => void;

  constructor(onAbort: (reason: Error) => void) {
    this.#onAbort = onAbort;
  }

  /** The try that answers. */
  lead(target: Controller): void {
    this.#target = target;
    if (this.#paused) target.pause();
  }

  get aborted(): boolean {
    return this.#aborted || (this.#target?.aborted ?? false);
  }

  get reason(): Error | null {
    return this.#reason ?? this.#target?.reason ?? null;
  }

  get paused(): boolean {
    return this.#target?.paused ?? this.#paused;
  }

  get rawHeaders(): NonNullable<Controller['rawHeaders']> | null {
    return this.#target?.rawHeaders ?? null;
  }

  get rawTrailers(): NonNullable<Controller['rawTrailers']> | null {
    return this.#target?.rawTrailers ?? null;
  }

  abort(reason: Error): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason ?? abortError();
    if (this.#target !== undefined) this.#target.abort(this.#reason);
    else this.#onAbort(this.#reason);
  }

  pause(): void {
    this.#paused = true;
    this.#target?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#target?.resume();
  }
}
