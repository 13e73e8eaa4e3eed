/** Whole zones of a name server that is a registry (AXFR, RFC 5936), as far as they tell of services. */
import { setImmediate as others } from 'node:timers/promises';
import { RCODE, TYPE } from '../dns/constants.js';
import { type Message, type ReadRecord, readMessage } from '../dns/read-message.js';
import type { Ms } from '../system/clock.js';
import { type Asking, idOf, isQuestion, type Query, queryOf, rcodeFailure, strange } from './dns-exchange.js';
import { aliasesFrom, isWithin } from './dns-records.js';
import { overTcp, type TransferFailure } from './dns-sockets.js';
import type { TsigAnswers } from './dns-tsig.js';

/** An endpoint has a name for its service, and one for its port. */
const RECORDS_AN_ENDPOINT = 4;

export interface Transfer {
  readonly serial: number;
  /** SRV, name servers, aliases, and addresses of hosts that may be endpoints. */
  readonly records: readonly ReadRecord[];
}

export interface TransferBounds {
  readonly maxBytes: number;
  /** Endpoints that there may be. */
  readonly maxEndpoints: number;
  /** Every name with an address may be a service. */
  readonly plain: boolean;
  readonly deadline: Ms;
}

/** Never rejects. */
export async function transferZone(
  asking: Omit<Asking, 'type' | 'turn'>,
  bounds: TransferBounds,
): Promise<Transfer | TransferFailure> {
  // Under way for long, so not so many that questions had to wait for them.
  const whole = { ...asking, type: TYPE.AXFR, turn: 'wait' } as const;
  const query = queryOf(whole);
  const reader = new TransferReader(whole, query, bounds);
  const { maxBytes, deadline } = bounds;
  const closed = 'closed in the middle of the transfer';
  const serial = await overTcp(whole, query.bytes, { maxBytes, deadline, closed }, (message, bytes) => {
    return reader.take(message, bytes);
  });
  if ('reason' in serial) return serial;
  const records = await reader.records();
  return Array.isArray(records) ? { ...serial, records } : (records as TransferFailure);
}

/**
 * Takes the messages one after the other. Of a zone with a million hosts few are endpoints, and which they are is known
 * at its end: the messages are kept as they came, and addresses read from them then.
 */
class TransferReader {
  readonly #asking: Asking;
  readonly #id: number;
  readonly #answers: TsigAnswers | undefined;
  readonly #bounds: TransferBounds;
  readonly #zone: string;
  #serial: number | undefined;
  readonly #endpoints: ReadRecord[] = [];
  /** By their names. */
  readonly #servers = new Map<string, ReadRecord>();
  readonly #targets = new Set<string>();
  /** By their names: no more than there may be targets. */
  readonly #aliases = new Map<string, ReadRecord & { readonly target: string }>();
  /** Delegations by their names: no more than that either. */
  readonly #cuts = new Map<string, ReadRecord>();
  /** Nor of them. */
  readonly #aliasesOfAll: ReadRecord[] = [];
  /** Those with addresses in them. */
  readonly #messages: Uint8Array[] = [];

  constructor(asking: Asking, query: Query, bounds: TransferBounds) {
    this.#asking = asking;
    this.#id = idOf(query.bytes);
    this.#answers = query.answers?.();
    this.#bounds = bounds;
    this.#zone = asking.name.toLowerCase();
  }

  /** The serial at the end of the zone; undefined: it goes on. */
  take(message: Message, bytes: Uint8Array): { readonly serial: number } | TransferFailure | undefined {
    if (message.id !== this.#id || !message.isReply) return strange('a reply to another question');
    const doubt = this.#answers?.take(bytes, message);
    if (doubt !== undefined) return doubt;
    if (message.rcode !== RCODE.NOERROR) return rcodeFailure(message.rcode);
    if (message.question !== undefined && !isQuestion(message, this.#asking)) {
      return strange('a reply to another question');
    }
    if (message.truncated) return strange('a truncated transfer');
    const { answers } = message;
    for (const [i, record] of answers.entries()) {
      const isSoa = record.type === TYPE.SOA && record.name === this.#zone;
      if (this.#serial === undefined) {
        if (!isSoa) return strange('the transfer does not begin with the SOA of the zone');
        this.#serial = record.serial;
      } else if (isSoa) {
        if (record.serial !== this.#serial) return strange('the zone changed during the transfer');
        if (i < answers.length - 1) return strange('records behind the last SOA of the zone');
        if (this.#answers?.whole === false) return strange('the end of the transfer is not signed');
        this.#keep(answers, bytes);
        return { serial: this.#serial };
      } else if (record.type === TYPE.SRV) {
        this.#targets.add(record.target);
        this.#endpoints.push(record);
        if (this.#isOver(this.#endpoints.length)) return this.#over('SRV');
      } else if (record.type === TYPE.CNAME && isWithin(record.name, this.#zone)) {
        if (!this.#isOver(this.#aliases.size)) this.#aliases.set(record.name, record);
      } else if (record.type === TYPE.DNAME) {
        if (!this.#isOver(this.#aliasesOfAll.length)) this.#aliasesOfAll.push(record);
      } else if (record.type === TYPE.NS) {
        if (this.#bounds.plain) this.#servers.set(record.target, record);
        if (record.name !== this.#zone && !this.#isOver(this.#cuts.size)) this.#cuts.set(record.name, record);
      }
    }
    if (this.#serial === undefined) return strange('an empty transfer');
    this.#keep(answers, bytes);
    return undefined;
  }

  async records(): Promise<readonly ReadRecord[] | TransferFailure> {
    for (const target of [...this.#targets])
      for (const alias of aliasesFrom(target, this.#aliases)) this.#targets.add(alias.target);
    const addresses: ReadRecord[] = [];
    for (const bytes of this.#messages) {
      for (const record of readMessage(bytes)!.answers) {
        if (isAddress(record) && this.#mayBeEndpoint(record.name)) addresses.push(record);
      }
      if (this.#isOver(addresses.length)) return this.#over('address');
      await others();
    }
    const aliases = [...this.#aliases.values(), ...this.#aliasesOfAll];
    return [...this.#endpoints, ...this.#servers.values(), ...this.#cuts.values(), ...aliases, ...addresses];
  }

  #keep(answers: readonly ReadRecord[], bytes: Uint8Array): void {
    if (answers.some(isAddress)) this.#messages.push(bytes);
  }

  #mayBeEndpoint(name: string): boolean {
    if (this.#targets.has(name)) return true;
    if (!this.#bounds.plain || !name.endsWith(`.${this.#zone}`)) return false;
    // A service without SRV is one label below the zone.
    return !name.slice(0, -this.#zone.length - 1).includes('.');
  }

  #isOver(records: number): boolean {
    return records > RECORDS_AN_ENDPOINT * this.#bounds.maxEndpoints;
  }

  #over(what: string): TransferFailure {
    const { maxEndpoints } = this.#bounds;
    const count = RECORDS_AN_ENDPOINT * maxEndpoints + 1;
    return { ...strange(`${count} ${what} records or more, for limits.maxEndpoints (${maxEndpoints})`), over: true };
  }
}

function isAddress({ type }: ReadRecord): boolean {
  return type === TYPE.A || type === TYPE.AAAA;
}
