/** Signatures of messages with a shared key (TSIG, RFC 8945): of questions, and of all the answers to one of them. */
import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto';
import { ByteWriter } from '../dns/byte-writer.js';
import { CLASS, TYPE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import { rcodeName } from '../dns/rcode-names.js';
import type { Message, Tsig } from '../dns/read-message.js';
import type { Failure } from './adapter.js';

/** By their names (RFC 8945 s.6), the digest. MD5 is none of them: it is too weak. */
export const TSIG_ALGORITHMS: Readonly<Record<string, string>> = {
  'hmac-sha1': 'sha1',
  'hmac-sha224': 'sha224',
  'hmac-sha256': 'sha256',
  'hmac-sha384': 'sha384',
  'hmac-sha512': 'sha512',
};

export interface TsigKey {
  /** Lower case, without the last dot. */
  readonly name: string;
  /** One of `TSIG_ALGORITHMS`. */
  readonly algorithm: string;
  readonly secret: Uint8Array;
}

export interface Signed {
  readonly bytes: Uint8Array;
  readonly mac: Uint8Array;
}

export const TSIG_ERROR = { NONE: 0, BADSIG: 16, BADKEY: 17, BADTIME: 18 } as const;

/** How far the clocks of both may be apart, in seconds (RFC 8945 s.10). */
const FUDGE = 300;
const ADDITIONALS_AT = 10;
/** Of a transfer, messages that may stand between two signed ones (RFC 8945 s.5.3.1). */
const MOST_UNSIGNED = 99;
const NOTHING = new Uint8Array(0);

/** The time of signatures, as both sides know it: the wall clock. */
export function wallSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

export interface Signing {
  readonly key: TsigKey;
  /** Since 1970. */
  readonly seconds: number;
  /** That of the question, when this is its answer. */
  readonly question?: Tsig;
  /** What is wrong with the question's: `BADTIME` or nothing. Others are told without a signature. */
  readonly error?: number;
}

/** The message with a signature behind its last record. */
export function signMessage(message: Uint8Array, { key, seconds, question, error = TSIG_ERROR.NONE }: Signing): Signed {
  const late = question !== undefined && error === TSIG_ERROR.BADTIME;
  // Who is late learns what time it is here (s.5.2.3).
  const time = late ? { time: question.time, other: time48(seconds) } : { time: seconds, other: NOTHING };
  const signature = { ...time, fudge: FUDGE, error };
  const hmac = hmacOf(key);
  if (question !== undefined) hmac.update(lengthAnd(question.mac));
  const mac = hmac.update(message).update(variables(key, signature)).digest();
  return { bytes: withTsig(message, key, signature, mac), mac };
}

/** The message with a record that says what is wrong with the signature of the question, and no signature (s.5.2). */
export function unsignedError(message: Uint8Array, question: Tsig, error: number): Uint8Array {
  const { time, fudge } = question;
  return withTsig(message, question, { time, fudge, error, other: NOTHING }, NOTHING);
}

/** What is wrong with the signature of a question; 0 when nothing is (RFC 8945 s.5.2). */
export function questionFault(bytes: Uint8Array, tsig: Tsig, key: TsigKey, seconds: number): number {
  if (!isOf(tsig, key)) return TSIG_ERROR.BADKEY;
  const hmac = hmacOf(key).update(stripped(bytes, tsig)).update(variables(key, tsig));
  if (!matches(hmac, tsig)) return TSIG_ERROR.BADSIG;
  return inTime(tsig, seconds) ? TSIG_ERROR.NONE : TSIG_ERROR.BADTIME;
}

/** Checks the answers to one question, in their order (RFC 8945 s.5.3): one, or the messages of a transfer. */
export class TsigAnswers {
  readonly #key: TsigKey;
  readonly #seconds: () => number;
  #hmac: Hmac;
  #first = true;
  #unsigned = 0;

  /** @param request the signature of the question */
  constructor(key: TsigKey, request: Uint8Array, seconds: () => number) {
    this.#key = key;
    this.#seconds = seconds;
    this.#hmac = hmacOf(key).update(lengthAnd(request));
  }

  /** Whether everything that was taken is signed, up to its end. */
  get whole(): boolean {
    return !this.#first && this.#unsigned === 0;
  }

  /** Why the message cannot be believed. After that the other answers cannot be either. */
  take(bytes: Uint8Array, { tsig, rcode }: Message): Failure | undefined {
    if (tsig === undefined) {
      if (this.#first || ++this.#unsigned > MOST_UNSIGNED) return doubt('the answer is not signed');
      this.#hmac.update(bytes);
      return undefined;
    }
    // The server could not sign: it says why, and anybody could have said so.
    if (tsig.mac.length === 0) return doubt(`${rcodeName(rcode)} (${words(tsig.error)})`);
    const key = this.#key;
    if (!isOf(tsig, key)) return doubt('the answer is signed with another key');
    this.#hmac.update(stripped(bytes, tsig)).update(this.#first ? variables(key, tsig) : timers(tsig));
    if (!matches(this.#hmac, tsig)) return doubt('the signature of the answer is wrong');
    if (tsig.error !== TSIG_ERROR.NONE) return doubt(`${rcodeName(rcode)} (${words(tsig.error)})`);
    if (!inTime(tsig, this.#seconds())) return doubt(`the answer is signed at another time: ${CLOCKS}`);
    this.#first = false;
    this.#unsigned = 0;
    this.#hmac = hmacOf(key).update(lengthAnd(tsig.mac));
    return undefined;
  }
}

const CLOCKS = `the clocks differ by more than ${FUDGE / 60} min`;

function words(error: number): string {
  switch (error) {
    case TSIG_ERROR.BADSIG:
      return 'BADSIG: the server has another secret for the key';
    case TSIG_ERROR.BADKEY:
      return 'BADKEY: the server does not know the key, or its algorithm';
    case TSIG_ERROR.BADTIME:
      return `BADTIME: ${CLOCKS}`;
    default:
      return `TSIG error ${error}`;
  }
}

function doubt(reason: string): Failure {
  return { kind: 'unbelievable', reason };
}

function hmacOf({ algorithm, secret }: TsigKey): Hmac {
  return createHmac(TSIG_ALGORITHMS[algorithm]!, secret);
}

function isOf(tsig: Tsig, { name, algorithm }: TsigKey): boolean {
  return tsig.name === name && tsig.algorithm === algorithm;
}

/** Signatures that are cut short (s.5.2.2.1) are not taken. */
function matches(hmac: Hmac, { mac }: Tsig): boolean {
  const own = hmac.digest();
  return own.length === mac.length && timingSafeEqual(own, mac);
}

function inTime({ time, fudge }: Tsig, seconds: number): boolean {
  return Math.abs(time - seconds) <= fudge;
}

/** The message as it was before it was signed (s.4.3.2). */
function stripped(bytes: Uint8Array, { at, originalId }: Tsig): Uint8Array {
  const message = Uint8Array.from(bytes.subarray(0, at));
  const view = new DataView(message.buffer);
  view.setUint16(0, originalId);
  view.setUint16(ADDITIONALS_AT, view.getUint16(ADDITIONALS_AT) - 1);
  return message;
}

type Times = Pick<Tsig, 'time' | 'fudge'>;

/** What is signed of the record itself (s.4.3.3). */
function variables(
  key: Pick<TsigKey, 'name' | 'algorithm'>,
  signature: Times & Pick<Tsig, 'error' | 'other'>,
): Uint8Array {
  const out = new ByteWriter(256);
  out.bytes(nameToWire(key.name)!).u16(CLASS.ANY).u32(0).bytes(nameToWire(key.algorithm)!);
  return out.bytes(timers(signature)).u16(signature.error).u16(signature.other.length).bytes(signature.other).copy();
}

function timers({ time, fudge }: Times): Uint8Array {
  return new ByteWriter(8).bytes(time48(time)).u16(fudge).copy();
}

function time48(seconds: number): Uint8Array {
  return new ByteWriter(6)
    .u16(Math.floor(seconds / 2 ** 32))
    .u32(seconds % 2 ** 32)
    .copy();
}

function lengthAnd(mac: Uint8Array): Uint8Array {
  return new ByteWriter(2 + mac.length).u16(mac.length).bytes(mac).copy();
}

function withTsig(
  message: Uint8Array,
  { name, algorithm }: Pick<TsigKey, 'name' | 'algorithm'>,
  signature: Times & Pick<Tsig, 'error' | 'other'>,
  mac: Uint8Array,
): Uint8Array {
  const data = new ByteWriter(128).bytes(nameToWire(algorithm)!).bytes(timers(signature)).bytes(lengthAnd(mac));
  const head = new DataView(message.buffer, message.byteOffset, message.byteLength);
  data.u16(head.getUint16(0)).u16(signature.error).u16(signature.other.length).bytes(signature.other);
  const out = new ByteWriter(message.length + data.length + 300);
  out.bytes(message).bytes(nameToWire(name)!).u16(TYPE.TSIG).u16(CLASS.ANY).u32(0);
  out.u16(data.length).bytes(data.view());
  const bytes = out.copy();
  new DataView(bytes.buffer).setUint16(ADDITIONALS_AT, head.getUint16(ADDITIONALS_AT) + 1);
  return bytes;
}
