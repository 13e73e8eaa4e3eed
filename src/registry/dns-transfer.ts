/**
 * A zone of another name server taken whole: its serial is asked for, and when that moved the zone is transferred. A
 * serial that went back is believed when two reads some time apart agree (R6), and begins a new epoch (R7).
 */
import type { LimitsConfig, ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import type { Ms } from '../system/clock.js';
import type { Failure, Observation, PollContext } from './adapter.js';
import { type Transfer, transferZone } from './dns-axfr.js';
import { askServer, isLaterSerial } from './dns-exchange.js';
import { zoneServices } from './dns-records.js';
import type { TransferFailure } from './dns-sockets.js';
import type { TsigKey } from './dns-tsig.js';
import { AGREE_MS, epochOf, lineageOf, type SeenRevision } from './revision-memory.js';
import type { AddressPolicy } from './rows.js';

export const TRANSFER_MS: Ms = 30_000;

export interface DnsTransferOptions {
  readonly servers: readonly ListenAddress[];
  readonly zone: string;
  readonly port: number | undefined;
  readonly policy: AddressPolicy;
  readonly limits: LimitsConfig;
  /** Monotonic. */
  readonly mono: () => Ms;
}

/** What is over the limits is not transferred again so soon with the same serial, however often NOTIFY tells of it. */
const REFUSED_MS: Ms = 10_000;
const EPOCH = 'dns';

/** A server that has nothing newer: it may lag behind the others. */
interface Behind {
  readonly kind: 'behind';
  readonly serial: number;
}

export class DnsTransfer {
  readonly #options: DnsTransferOptions;
  /** How often a serial that went back was believed in the end. */
  #lineage = 0;
  #serial: number | undefined;
  /** The same serial says nothing: servers may show another zone to another key. */
  #anew = false;
  /** By server, what it gave last, when that was over the limits. */
  readonly #refused = new Map<ListenAddress, { readonly serial: number; readonly at: Ms; readonly failure: Failure }>();
  /** The first read that went back. */
  #doubt: { readonly serial: number; readonly at: Ms } | undefined;

  constructor(options: DnsTransferOptions) {
    this.#options = options;
  }

  /** R6, R7: the serial that was taken last before this process, or thread, began. What makes no sense is left. */
  seed({ epoch, revision }: SeenRevision): void {
    const serial = /^\d{1,10}$/.test(revision) ? Number(revision) : Number.NaN;
    if (serial >>> 0 !== serial) return;
    this.#serial = serial;
    this.#lineage = lineageOf(epoch).lineage;
  }

  /** With another key: the zone is transferred again, whatever its serial. */
  readAnew(): void {
    this.#anew = true;
    this.#refused.clear();
  }

  /** Asks one server, with the key that it shares with us. */
  async read(
    server: ListenAddress,
    { signal, fresh }: PollContext,
    key?: TsigKey,
  ): Promise<Observation | Failure | Behind> {
    const { zone } = this.#options;
    const serial = await this.#serialAt(server, key, signal);
    if (typeof serial !== 'number') return serial;
    // What goes on has not gone back for good.
    if (!this.#isBehind(serial)) this.#doubt = undefined;
    if (serial === this.#serial && !fresh && !this.#anew) return { kind: 'confirmed' };
    if (this.#isBehind(serial) && !this.#agrees(serial)) return { kind: 'behind', serial };
    const refused = this.#refused.get(server);
    const rest = refused?.serial === serial ? refused.at + REFUSED_MS - this.#options.mono() : 0;
    if (refused !== undefined && rest > 0) return { ...refused.failure, retryAfter: rest };
    const { maxBody: maxBytes, maxEndpoints } = this.#options.limits;
    const bounds = { maxBytes, maxEndpoints, plain: this.#options.port !== undefined, deadline: TRANSFER_MS };
    const transfer = await transferZone({ server, name: zone, key, signal }, bounds);
    const taken = 'reason' in transfer ? transfer : this.#take(transfer);
    if ('over' in taken) this.#refused.set(server, { serial, at: this.#options.mono(), failure: taken });
    else this.#refused.delete(server);
    return taken;
  }

  /** No server has what was seen before: what is to be said of the best of those that are behind. */
  behind(serials: readonly number[]): Failure {
    const serial = serials.reduce((a, b) => (isLaterSerial(b, a) ? b : a));
    const now = this.#options.mono();
    const known = this.#doubt;
    if (known === undefined || isLaterSerial(known.serial, serial)) this.#doubt = { serial, at: now };
    const retryAfter = Math.max(1000, (this.#doubt?.at ?? now) + AGREE_MS - now);
    return { kind: 'unbelievable', reason: `the serial went back from ${this.#serial} to ${serial}`, retryAfter };
  }

  #isBehind(serial: number): boolean {
    return this.#serial !== undefined && serial !== this.#serial && !isLaterSerial(serial, this.#serial);
  }

  /** The second read, far enough from the first. */
  #agrees(serial: number): boolean {
    const doubt = this.#doubt;
    if (doubt === undefined || this.#options.mono() - doubt.at < AGREE_MS) return false;
    return serial === doubt.serial || isLaterSerial(serial, doubt.serial);
  }

  #take({ serial, records }: Transfer): Observation | TransferFailure | Behind {
    const { zone } = this.#options;
    const contents = zoneServices(zone, records, this.#options);
    // The serial is not taken in either: otherwise what was not believed would be confirmed by it.
    if (typeof contents === 'string') return { kind: 'unbelievable', reason: contents, over: true };
    if (this.#isBehind(serial)) {
      if (!this.#agrees(serial)) return { kind: 'behind', serial };
      this.#lineage++;
    }
    this.#serial = serial;
    this.#anew = false;
    this.#doubt = undefined;
    return {
      kind: 'list',
      epoch: epochOf(EPOCH, this.#lineage),
      revision: String(serial),
      ...contents,
      releases: [],
      removalsBelievable: true,
    };
  }

  async #serialAt(server: ListenAddress, key: TsigKey | undefined, signal: AbortSignal): Promise<number | Failure> {
    const { zone } = this.#options;
    const reply = await askServer({ server, name: zone, type: TYPE.SOA, key, signal });
    if ('reason' in reply) return reply;
    if (reply.rcode === RCODE.NXDOMAIN) return { kind: 'unbelievable', reason: `there is no zone ${zone} (NXDOMAIN)` };
    for (const record of reply.answers) if (record.type === TYPE.SOA && record.name === zone) return record.serial;
    return { kind: 'unbelievable', reason: `no SOA of ${zone}` };
  }
}
