/** Which sockets are up, which are retried and why; one log line a change. */
import type { ListenAddress } from '../config/types.js';
import { type BindFailure, explainBindFailure } from './bind-error.js';
import { type SocketPlan, socketFor } from './listen-plan.js';

export interface ListenerStatus {
  readonly address: string;
  /** As bound: the kernel's choice where the configuration says 0. */
  readonly port: number;
  readonly protocol: 'udp' | 'tcp';
  readonly state: 'starting' | 'up' | 'retrying';
  /** Why it is retried: a sentence for people, with who holds the port and what to do. */
  readonly error?: string;
}

type Log = (level: 'info' | 'warn', event: string, fields: Readonly<Record<string, unknown>>) => void;

interface Entry {
  readonly failure?: BindFailure;
  /** Being worked out for as long as it is a promise. */
  reason?: Promise<string>;
  text?: string;
  told: boolean;
}

const PROTOCOLS = ['udp', 'tcp'] as const;

export class ListenBoard {
  readonly #log: Log;
  readonly #entries = new Map<string, Entry>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** The outcome of a try. The same failure again changes nothing. */
  set(key: string, protocol: 'udp' | 'tcp', failure: BindFailure | undefined): void {
    const id = `${protocol}|${key}`;
    const last = this.#entries.get(id);
    if (last && last.failure?.code === failure?.code) return;
    this.#entries.set(id, failure ? { failure, told: false } : { told: false });
  }

  /** R35: an address counts as bound when it answers UDP. */
  bound(key: string): boolean {
    const entry = this.#entries.get(`udp|${key}`);
    return entry !== undefined && entry.failure === undefined;
  }

  failed(key: string): boolean {
    return PROTOCOLS.some((protocol) => this.#entries.get(`${protocol}|${key}`)?.failure !== undefined);
  }

  /** Logs what changed, forgets what is not listed any more, and looks for the holders of ports in use. */
  report(plans: readonly SocketPlan[]): void {
    for (const id of this.#entries.keys())
      if (!plans.some((plan) => id.endsWith(`|${plan.key}`))) this.#entries.delete(id);
    for (const plan of plans)
      for (const protocol of PROTOCOLS) {
        const entry = this.#entries.get(`${protocol}|${plan.key}`);
        if (!entry || entry.told) continue;
        entry.told = true;
        const { address, port } = plan;
        const { failure } = entry;
        if (!failure) {
          this.#log('info', 'listen-up', { address, port, protocol });
          continue;
        }
        entry.reason = explainBindFailure(plan, protocol, failure).then((text) => {
          entry.text = text;
          if (this.#entries.get(`${protocol}|${plan.key}`) === entry)
            this.#log('warn', 'listen-retrying', { address, port, protocol, message: text });
          return text;
        });
      }
  }

  /** Why each socket that is not up is not, in full. */
  async reasons(): Promise<string[]> {
    const all = await Promise.all([...this.#entries.values()].map((entry) => entry.reason));
    return all.filter((text) => text !== undefined);
  }

  status(listen: readonly ListenAddress[], plans: readonly SocketPlan[]): ListenerStatus[] {
    return listen.flatMap((entry) =>
      PROTOCOLS.map((protocol): ListenerStatus => {
        const plan = socketFor(plans, entry);
        const found = plan && this.#entries.get(`${protocol}|${plan.key}`);
        const base = { address: entry.address, port: entry.port, protocol };
        if (!found) return { ...base, state: 'starting' };
        if (!found.failure) return { ...base, state: 'up' };
        return { ...base, state: 'retrying', error: found.text ?? found.failure.message };
      }),
    );
  }
}
