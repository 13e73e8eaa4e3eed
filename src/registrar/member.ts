/** One registration at work: its check, what is wanted because of it, and the keeper that sees to that. */
import { targetOf } from '../health/targets.js';
import type { ProbeType } from '../prober/feed.js';
import type { Probe } from '../prober/probes/attempt.js';
import type { After } from '../registry/timers.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Log } from '../system/log.js';
import { type Entry, periodOf, type Registration } from './entry.js';
import { Keeper, type KeeperState } from './keeper.js';
import { LocalCheck } from './local-check.js';
import type { Target } from './target.js';

export interface MemberOptions {
  readonly target: Target;
  readonly log: Log;
  readonly now: () => BootMs;
  /** The address of this host, kept as long as it is good. */
  readonly address: (before?: string) => string;
  readonly probeOf: (type: ProbeType) => Promise<Probe>;
  readonly onChange: () => void;
  /** For tests. */
  readonly after?: After;
  readonly random?: () => number;
}

export class Member {
  #registration: Registration;
  readonly #options: MemberOptions;
  readonly #keeper: Keeper;
  #address: string | undefined;
  #check: LocalCheck | undefined;
  #checking = 0;
  #draining = false;
  #since: BootMs;

  constructor(registration: Registration, options: MemberOptions) {
    this.#registration = registration;
    this.#options = options;
    this.#since = options.now();
    const { target, now, after, random } = options;
    this.#keeper = new Keeper({
      target,
      ttl: registration.ttl,
      period: periodOf(registration.ttl),
      onState: (state) => this.#tell(state),
      now,
      ...(after === undefined ? {} : { after }),
      ...(random === undefined ? {} : { random }),
    });
  }

  start(): void {
    void this.#startCheck();
    this.#decide();
  }

  get registration(): Registration {
    return this.#registration;
  }

  get state(): KeeperState {
    return this.#keeper.state;
  }

  /** Since when the state is what it is. */
  get since(): BootMs {
    return this.#since;
  }

  /** Undefined: not checked, or not yet. */
  get healthy(): boolean | undefined {
    return this.#check?.healthy;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Takes on other settings of the same registry, service and id, with the same TTL. */
  change(registration: Registration): void {
    const checkIsSame = JSON.stringify(registration.check) === JSON.stringify(this.#registration.check);
    this.#registration = registration;
    if (!checkIsSame) void this.#startCheck();
    this.#decide();
  }

  /** Looks at everything at once. */
  nudge(): void {
    this.#decide();
    this.#keeper.nudge();
  }

  drain(): void {
    this.#draining = true;
    this.#decide();
  }

  /** Ends, and leaves what is registered to a successor of the same id. */
  abandon(): void {
    this.#check?.stop();
    this.#checking++;
    this.#keeper.abandon();
  }

  /** Ends, and removes what may be registered within `bound`. False: it is left to its TTL. */
  async stop(bound: Ms): Promise<boolean> {
    this.#check?.stop();
    this.#checking++;
    return await this.#keeper.stop(bound);
  }

  async #startCheck(): Promise<void> {
    this.#check?.stop();
    this.#check = undefined;
    const { check } = this.#registration;
    if (check === undefined || check.type === 'none') return;
    const turn = ++this.#checking;
    const probe = await this.#options.probeOf(check.type);
    if (turn !== this.#checking) return;
    const { after } = this.#options;
    this.#check = new LocalCheck({
      check,
      probe,
      target: () => targetOf({ ...this.#entry('passing'), priority: 0, weight: 1 }, check),
      onChange: (healthy, detail) => {
        const { service, id } = this.#registration.entry;
        const fields = { service, id, ...(healthy ? {} : { detail }) };
        this.#options.log(healthy ? 'info' : 'warn', healthy ? 'check-passes' : 'check-fails', fields);
        this.#decide();
        this.#options.onChange();
      },
      ...(after === undefined ? {} : { after }),
    });
    this.#check.start();
  }

  #decide(): void {
    const { whenHealthy } = this.#registration;
    const healthy = this.#check?.healthy;
    if (whenHealthy && healthy !== true) this.#keeper.want(undefined);
    else if (this.#draining) this.#keeper.want(this.#entry('draining'));
    else this.#keeper.want(this.#entry(healthy === false ? 'critical' : 'passing'));
  }

  #entry(state: Entry['state']): Entry {
    const { entry } = this.#registration;
    this.#address = entry.address ?? this.#options.address(this.#address);
    return { ...entry, address: this.#address, state };
  }

  #tell(state: KeeperState): void {
    this.#since = this.#options.now();
    const { entry, zone } = this.#registration;
    const about = { service: entry.service, id: entry.id, zone };
    const { log } = this.#options;
    switch (state.kind) {
      case 'registered':
        log('info', 'registered', { ...about, address: this.#address, port: entry.port, wrote: state.wrote });
        break;
      case 'trying':
      case 'leaving':
        if (state.reason === undefined) break;
        log('warn', state.kind === 'trying' ? 'not-registered' : 'not-removed', { ...about, reason: state.reason });
        break;
      case 'unconfirmed':
        log('warn', 'registry-away', { ...about, reason: state.reason });
        break;
      case 'taken':
        log('warn', 'id-taken', { ...about, by: state.by, reason: 'a younger registrar has this id' });
        break;
      case 'absent':
        log('info', 'removed', about);
    }
    this.#options.onChange();
  }
}
