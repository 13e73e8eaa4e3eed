/** A service as its manager sees it: ready, alive, how it stands, on its way out. Without a manager nothing is said. */
import type { Ms } from './clock.js';
import { findServiceManager, monotonicUsec, type ServiceManager } from './service-manager.js';

export interface ServiceSigns {
  /** Whether all that has to turn still does. */
  alive(): boolean;
  /** One line for a person. */
  status(): string;
}

/** How it stands is told so often, when it has changed. */
const STATUS_MS: Ms = 10_000;
/** Of the manager's patience: two beats may be lost. */
const BEATS = 3;

export class ServiceNotice {
  readonly #manager: ServiceManager | undefined;
  readonly #signs: ServiceSigns;
  #timer: NodeJS.Timeout | undefined;
  #status = '';

  constructor(signs: ServiceSigns, manager: ServiceManager | undefined = findServiceManager()) {
    this.#signs = signs;
    this.#manager = manager;
  }

  /** It does its work from now on. */
  ready(): void {
    const manager = this.#manager;
    if (!manager) return;
    manager.notify('READY=1', ...this.#news());
    const every = Math.min(STATUS_MS, (manager.watchdog ?? Number.POSITIVE_INFINITY) / BEATS);
    this.#timer ??= setInterval(() => this.#beat(manager), every).unref();
  }

  /** The service takes something else in meanwhile, and is ready again after. */
  async during(reload: () => Promise<void>): Promise<void> {
    this.#manager?.notify('RELOADING=1', monotonicUsec());
    try {
      await reload();
    } finally {
      this.ready();
    }
  }

  stopping(): void {
    clearInterval(this.#timer);
    this.#manager?.notify('STOPPING=1');
  }

  #beat(manager: ServiceManager): void {
    const lines = [...(this.#signs.alive() && manager.watchdog !== undefined ? ['WATCHDOG=1'] : []), ...this.#news()];
    if (lines.length > 0) manager.notify(...lines);
  }

  #news(): string[] {
    const status = this.#signs.status();
    if (status === this.#status) return [];
    this.#status = status;
    return [`STATUS=${status}`];
  }
}
