/** What a zone's guard does, told: one line a step, and the alarm (R9). */
import type { Guard, GuardEvent } from '../catalog/guard.js';
import type { HeardMs } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { Ms } from '../system/clock.js';
import type { Log } from './events.js';
import type { Who } from './zone-hearing.js';

/** The guard's alarm sounds when it has held passing rows for so long. */
const ALARM_MS: Ms = 300_000;

export class GuardLog {
  /** It sounds at present. */
  alarm = false;
  readonly #who: Who;
  readonly #guard: Guard;
  readonly #log: Log;

  constructor(who: Who, guard: Guard, log: Log) {
    this.#who = who;
    this.#guard = guard;
    this.#log = log;
  }

  /** Logs what the guard did. Returns the services that it changed. */
  tell(events: readonly GuardEvent[]): Set<Service> {
    const changed = new Set<Service>();
    for (const event of events) {
      if (event.kind === 'tripped') {
        const service = event.service === undefined ? {} : { service: event.service.name };
        this.#log('warn', 'guard-tripped', { ...this.#who, scope: event.scope, ...service, lost: event.lost });
        continue;
      }
      changed.add(event.service);
      if (event.kind === 'forgotten') continue;
      const fields = { ...this.#who, service: event.service.name, rows: event.rows.length };
      if (event.kind === 'held') this.#log('warn', 'guard-holds', fields);
      else this.#log('info', 'guard-let-go', { ...fields, exit: event.exit });
    }
    return changed;
  }

  /** Sounds the alarm when passing rows have been held for five minutes of heard time, once, and ends it. */
  sound(now: HeardMs): void {
    const alarm = now >= this.due();
    if (alarm === this.alarm) return;
    this.alarm = alarm;
    const services = [...this.#guard.holding()].map((service) => service.name);
    if (alarm) this.#log('error', 'guard-alarm', { ...this.#who, services, remedy: 'holdfast accept NAME' });
    else this.#log('info', 'guard-alarm-ended', { ...this.#who });
  }

  /** When the alarm is to sound, on the heard clock; Infinity while nothing that passes is held. */
  due(): HeardMs {
    const since = this.#guard.heldPassingSince;
    return since === undefined ? Number.POSITIVE_INFINITY : since + ALARM_MS;
  }
}
