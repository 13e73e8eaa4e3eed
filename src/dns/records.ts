/**
 * Resource records as bytes that may stand anywhere in a message: nothing in them points into the message except
 * the owner of the question. A *tail* is a record without its owner name.
 */
import { addressBytes, quad, targetLabel, targetLabelLength } from './addresses.js';
import { ByteWriter } from './byte-writer.js';
import { CLASS, TYPE } from './constants.js';

/** An owner that is the question's name: a pointer to offset 12. */
export const QUESTION_OWNER = 0xc00c;

/** Bytes of a record whose owner is a pointer, before its RDATA. */
export const RECORD_HEAD_BYTES = 12;
/** Where the target's name begins in an SRV record with such an owner. */
export const SRV_TARGET_OFFSET = RECORD_HEAD_BYTES + 6;

const DOT = 0x2e;
const HYPHEN = 0x2d;

const scratch = new ByteWriter(1024);

/** TTL in whole seconds from a configured time; at least 1, since 0 would make every client ask each time. */
export function ttlSeconds(ms: number): number {
  return Math.min(Math.max(Math.round(ms / 1000), 1), 0x7fffffff);
}

/** Type, class IN, TTL, length and RDATA. */
export function writeTail(out: ByteWriter, type: number, ttl: number, rdata: Uint8Array): void {
  out.u16(type).u16(CLASS.IN).u32(ttl).u16(rdata.length).bytes(rdata);
}

/** A or AAAA, by the length of the address. */
export function addressType(address: Uint8Array): number {
  return address.length === 4 ? TYPE.A : TYPE.AAAA;
}

/** A whole record owned by the question's name. */
export function record(type: number, ttl: number, rdata: Uint8Array): Uint8Array {
  scratch.reset().u16(QUESTION_OWNER);
  writeTail(scratch, type, ttl, rdata);
  return scratch.copy();
}

export interface Srv {
  readonly priority: number;
  readonly weight: number;
  readonly port: number;
  /** Wire form, written in full: RFC 2782 forbids compression here. */
  readonly target: Uint8Array;
}

/** An SRV record owned by the question's name. */
export function writeSrv(out: ByteWriter, ttl: number, srv: Srv): void {
  out.u16(QUESTION_OWNER).u16(TYPE.SRV).u16(CLASS.IN).u32(ttl);
  out
    .u16(6 + srv.target.length)
    .u16(srv.priority)
    .u16(srv.weight)
    .u16(srv.port)
    .bytes(srv.target);
}

/**
 * The same, with the address's own name below `parent` as target: written without a name or an address being made,
 * since a zone has very many.
 */
export function writeSrvOfAddress(
  out: ByteWriter,
  ttl: number,
  { priority, weight, port, address }: { priority: number; weight: number; port: number; address: string },
  parent: Uint8Array,
): void {
  const length = targetLabelLength(address);
  out.u16(QUESTION_OWNER).u16(TYPE.SRV).u16(CLASS.IN).u32(ttl);
  out
    .u16(6 + 1 + length + parent.length)
    .u16(priority)
    .u16(weight)
    .u16(port)
    .u8(length);
  const label = address.includes(':') ? targetLabel(addressBytes(address)!) : address;
  for (let i = 0; i < length; i++) {
    const code = label.charCodeAt(i);
    out.u8(code === DOT ? HYPHEN : code);
  }
  out.bytes(parent);
}

/** The tail of an A or AAAA record of an address in text. */
export function writeAddress(out: ByteWriter, ttl: number, address: string): void {
  const whole = quad(address);
  if (whole >= 0) out.u16(TYPE.A).u16(CLASS.IN).u32(ttl).u16(4).u32(whole);
  else {
    const bytes = addressBytes(address)!;
    writeTail(out, addressType(bytes), ttl, bytes);
  }
}

export interface Soa {
  readonly mname: Uint8Array;
  readonly rname: Uint8Array;
  readonly serial: number;
  readonly refresh: number;
  readonly retry: number;
  readonly expire: number;
  /** Also the TTL of negative answers (RFC 2308). */
  readonly minimum: number;
}

export function soaRdata(soa: Soa): Uint8Array {
  scratch.reset().bytes(soa.mname).bytes(soa.rname).u32(soa.serial);
  return scratch.u32(soa.refresh).u32(soa.retry).u32(soa.expire).u32(soa.minimum).copy();
}

const MAX_CHARACTER_STRING = 255;
const MAX_TXT_BYTES = 4096;

/** RDATA of a TXT record. A long string is cut in character-strings of 255 octets; no string at all gives one empty. */
export function txtRdata(strings: readonly string[]): Uint8Array {
  scratch.reset();
  for (const text of strings) {
    const bytes = Buffer.from(text, 'utf8');
    for (let at = 0; at === 0 || at < bytes.length; at += MAX_CHARACTER_STRING) {
      const part = bytes.subarray(at, at + MAX_CHARACTER_STRING);
      if (scratch.length + part.length + 1 > MAX_TXT_BYTES) return scratch.copy();
      scratch.u8(part.length).bytes(part);
    }
  }
  return scratch.length === 0 ? Uint8Array.of(0) : scratch.copy();
}
