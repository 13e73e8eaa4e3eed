/** Messages of other name servers, read: everything that comes is hostile until it has been read here. */
import { CLASS, HEADER_BYTES, MAX_LABEL, MAX_NAME, TYPE } from './constants.js';
import { FOLD } from './names.js';

export interface Message {
  readonly id: number;
  /** In bytes. */
  readonly length: number;
  readonly isReply: boolean;
  readonly opcode: number;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  readonly recursionAvailable: boolean;
  /** It has an OPT record. */
  readonly edns: boolean;
  /** With its upper bits, where there is an OPT record (RFC 6891 s.6.1.3). */
  readonly rcode: number;
  /** Absent: the message has none, or more than one. */
  readonly question?: { readonly name: string; readonly type: number };
  readonly answers: readonly ReadRecord[];
  readonly authorities: readonly ReadRecord[];
  readonly additionals: readonly ReadRecord[];
  /** Its signature, when the last record is one. */
  readonly tsig?: Tsig;
}

/** A record that signs the message before it (RFC 8945 s.4.2). */
export interface Tsig {
  /** Where it begins in the message. */
  readonly at: number;
  /** Of the key, lower case. */
  readonly name: string;
  readonly algorithm: string;
  /** Seconds since 1970, and how far a clock may be from that. */
  readonly time: number;
  readonly fudge: number;
  readonly mac: Uint8Array;
  readonly originalId: number;
  readonly error: number;
  readonly other: Uint8Array;
}

/** A record with what is understood of it. Names are lower case, without a trailing dot. */
export type ReadRecord =
  | { readonly name: string; readonly type: typeof TYPE.A | typeof TYPE.AAAA; readonly address: Uint8Array }
  | {
      readonly name: string;
      readonly type: typeof TYPE.SRV;
      readonly priority: number;
      readonly weight: number;
      readonly port: number;
      readonly target: string;
    }
  | { readonly name: string; readonly type: typeof TYPE.SOA; readonly serial: number }
  | {
      readonly name: string;
      readonly type: typeof TYPE.NS | typeof TYPE.CNAME | typeof TYPE.DNAME;
      readonly target: string;
    }
  | { readonly name: string; readonly type: 'other' };

class Malformed extends Error {}

/** Undefined when a record is not where its section says, or a name is none. Bytes behind the last record are passed over. */
export function readMessage(bytes: Uint8Array): Message | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  try {
    return new Reader(bytes).message();
  } catch (error) {
    if (error instanceof Malformed) return undefined;
    throw error;
  }
}

class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #upperRcode: number | undefined;
  /** Set while it is the last one that was read. */
  #tsig: Tsig | undefined;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  message(): Message {
    const id = this.#u16();
    const flags = this.#u16();
    const questions = this.#u16();
    const answers = this.#u16();
    const authorities = this.#u16();
    const additionals = this.#u16();
    let question: { name: string; type: number } | undefined;
    for (let i = 0; i < questions; i++) {
      question = { name: this.#name(), type: this.#u16() };
      this.#u16();
    }
    const sections = {
      answers: this.#records(answers),
      authorities: this.#records(authorities),
      additionals: this.#records(additionals),
    };
    return {
      id,
      length: this.#bytes.length,
      isReply: (flags & 0x8000) !== 0,
      opcode: (flags >> 11) & 15,
      authoritative: (flags & 0x0400) !== 0,
      truncated: (flags & 0x0200) !== 0,
      recursionAvailable: (flags & 0x0080) !== 0,
      edns: this.#upperRcode !== undefined,
      rcode: ((this.#upperRcode ?? 0) << 4) | (flags & 15),
      ...(questions === 1 && question !== undefined ? { question } : {}),
      ...sections,
      ...(additionals > 0 && this.#tsig !== undefined ? { tsig: this.#tsig } : {}),
    };
  }

  #records(count: number): ReadRecord[] {
    const records: ReadRecord[] = [];
    for (let i = 0; i < count; i++) records.push(this.#record());
    return records;
  }

  #record(): ReadRecord {
    const begin = this.#at;
    const name = this.#name();
    const type = this.#u16();
    const classNumber = this.#u16();
    if (type === TYPE.OPT) this.#upperRcode = this.#bytes[this.#at] ?? 0;
    this.#at += 4;
    const length = this.#u16();
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new Malformed();
    this.#tsig = type === TYPE.TSIG && classNumber === CLASS.ANY ? this.#signature(begin, name) : undefined;
    const record = classNumber === CLASS.IN ? this.#data(name, type, length) : ({ name, type: 'other' } as const);
    // A name inside may not go beyond its record.
    if (this.#at > end) throw new Malformed();
    this.#at = end;
    return record;
  }

  #data(name: string, type: number, length: number): ReadRecord {
    switch (type) {
      case TYPE.A:
      case TYPE.AAAA:
        if (length !== (type === TYPE.A ? 4 : 16)) throw new Malformed();
        return { name, type, address: this.#bytes.slice(this.#at, this.#at + length) };
      case TYPE.SRV:
        return {
          name,
          type,
          priority: this.#u16(),
          weight: this.#u16(),
          port: this.#u16(),
          target: this.#name(),
        };
      case TYPE.SOA: {
        this.#name();
        this.#name();
        return { name, type, serial: this.#u16() * 0x10000 + this.#u16() };
      }
      case TYPE.NS:
      case TYPE.CNAME:
      case TYPE.DNAME:
        return { name, type, target: this.#name() };
      default:
        return { name, type: 'other' };
    }
  }

  #signature(at: number, name: string): Tsig {
    return {
      at,
      name,
      algorithm: this.#name(),
      time: this.#u16() * 2 ** 32 + this.#u16() * 0x10000 + this.#u16(),
      fudge: this.#u16(),
      mac: this.#counted(),
      originalId: this.#u16(),
      error: this.#u16(),
      other: this.#counted(),
    };
  }

  /** Bytes with their number before them. */
  #counted(): Uint8Array {
    const length = this.#u16();
    const from = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new Malformed();
    return this.#bytes.slice(from, this.#at);
  }

  #u16(): number {
    const at = this.#at;
    if (at + 2 > this.#bytes.length) throw new Malformed();
    this.#at = at + 2;
    return (this.#bytes[at]! << 8) | this.#bytes[at + 1]!;
  }

  /** A name that may end in pointers, each to before where it stands (RFC 1035 s.4.1.4). */
  #name(): string {
    const bytes = this.#bytes;
    let text = '';
    let octets = 1;
    let at = this.#at;
    let before = at;
    let jumped = false;
    for (;;) {
      const length = bytes[at];
      if (length === undefined) throw new Malformed();
      if (length > MAX_LABEL) {
        const low = bytes[at + 1];
        const to = ((length & 0x3f) << 8) | (low ?? 0);
        if (length < 0xc0 || low === undefined || to >= before) throw new Malformed();
        if (!jumped) this.#at = at + 2;
        jumped = true;
        before = to;
        at = to;
        continue;
      }
      octets += length + 1;
      if (octets > MAX_NAME + 1 || at + 1 + length > bytes.length) throw new Malformed();
      if (length === 0) break;
      text += `${text === '' ? '' : '.'}${labelText(bytes, at + 1, length)}`;
      at += length + 1;
    }
    if (!jumped) this.#at = at + 1;
    return text === '' ? '.' : text;
  }
}

/** Bytes that are not those of host names are escaped (RFC 1035 s.5.1). */
function labelText(bytes: Uint8Array, from: number, length: number): string {
  let text = '';
  for (let i = from; i < from + length; i++) {
    const byte = FOLD[bytes[i]!]!;
    if (byte === 0x2e || byte === 0x5c) text += `\\${String.fromCharCode(byte)}`;
    else if (byte > 0x20 && byte < 0x7f) text += String.fromCharCode(byte);
    else text += `\\${String(byte).padStart(3, '0')}`;
  }
  return text;
}
