/** All registrations of one process: follows the plan, drains, and stops within a bound. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { BootMs, Ms } from '../system/clock.js';
import type { Registration } from './entry.js';
import type { KeeperState } from './keeper.js';
import { Member, type MemberOptions } from './member.js';
import { registrationKey } from './open-target.js';
import type { Target } from './target.js';

/** What is not removed by then is left to its TTL: nobody may have to wait for a registry. */
export const STOP_MS: Ms = 3_000;

export interface RegistrarOptions extends Omit<MemberOptions, 'target'> {
  readonly open: (registration: Registration) => Target;
}

export interface RegistrationStatus {
  readonly service: string;
  readonly id: string;
  readonly zone: string;
  readonly registry: string;
  readonly port: number;
  readonly state: KeeperState['kind'];
  readonly since: BootMs;
  readonly healthy?: boolean;
  readonly draining: boolean;
  readonly reason?: string;
}

export class Registrar {
  readonly #options: RegistrarOptions;
  readonly #members = new Map<string, Member>();
  readonly #leaving = new Set<Promise<unknown>>();
  /** Ends the drains of those that are leaving. */
  readonly #cut = new AbortController();

  constructor(options: RegistrarOptions) {
    this.#options = options;
  }

  /** What is to be registered from now on, and nothing else. */
  follow(registrations: readonly Registration[]): void {
    const wanted = new Map(registrations.map((registration) => [keyOf(registration), registration]));
    const entries = new Set(registrations.map(registrationKey));
    for (const [key, member] of this.#members) {
      if (wanted.has(key)) continue;
      this.#members.delete(key);
      // With another TTL or other secrets it is the same entry, and is written over.
      if (entries.has(registrationKey(member.registration))) member.abandon();
      else this.#leave(member);
    }
    for (const [key, registration] of wanted) {
      const known = this.#members.get(key);
      if (known !== undefined) known.change(registration);
      else {
        const member = new Member(registration, { ...this.#options, target: this.#options.open(registration) });
        this.#members.set(key, member);
        member.start();
      }
    }
    this.#options.onChange();
  }

  /** Much time may have passed unseen. */
  nudge(): void {
    for (const member of this.#members.values()) member.nudge();
  }

  /**
   * Drains what is to be drained, until `cut` at most, then removes everything. Resolves with what had to be left to
   * its TTL.
   */
  async stop(cut: AbortSignal): Promise<Registration[]> {
    const left: Registration[] = [];
    const end = async (member: Member): Promise<void> => {
      const { drain } = member.registration;
      if (drain > 0 && !cut.aborted) {
        member.drain();
        await sleep(drain, undefined, { signal: cut }).catch(() => undefined);
      }
      if (!(await member.stop(STOP_MS))) left.push(member.registration);
    };
    this.#cut.abort();
    await Promise.all([...this.#members.values()].map(end));
    await Promise.all(this.#leaving);
    this.#members.clear();
    return left;
  }

  status(): RegistrationStatus[] {
    return [...this.#members.values()].map((member) => {
      const { registration, state, since, healthy, draining } = member;
      const { entry, zone, registry } = registration;
      return {
        ...{ service: entry.service, id: entry.id, zone, registry: registry.type, port: entry.port },
        ...{ state: state.kind, since, draining },
        ...(healthy === undefined ? {} : { healthy }),
        ...('reason' in state && state.reason !== undefined ? { reason: state.reason } : {}),
      };
    });
  }

  /** One that is not wanted any more drains by itself. */
  #leave(member: Member): void {
    const { drain, entry, zone } = member.registration;
    member.drain();
    const gone = sleep(drain, undefined, { signal: this.#cut.signal })
      .catch(() => undefined)
      .then(() => member.stop(STOP_MS))
      .then((removed) => {
        const about = { service: entry.service, id: entry.id, zone };
        if (!removed) this.#options.log('warn', 'left-to-ttl', about);
      })
      .finally(() => this.#leaving.delete(gone));
    this.#leaving.add(gone);
  }
}

/** A member keeps its registry, its id and its TTL; with others it is another one. */
function keyOf(registration: Registration): string {
  return `${registrationKey(registration)} ${registration.ttl} ${JSON.stringify(registration.registry)}`;
}
