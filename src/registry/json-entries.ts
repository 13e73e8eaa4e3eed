/** Where the entries of a JSON object lie in its text, so that a large one is never parsed as a whole. */

import { MAX_DEPTH } from './json-brackets.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;

export interface JsonEntry {
  readonly key: string;
  /** The first byte of its value, and the one after the last. */
  readonly start: number;
  readonly end: number;
}

/** It is no object, or none that can be taken apart so: whoever parses it as a whole may know more. */
export class NotTaken extends Error {}

/** The place after a byte order mark. */
export function textStart(bytes: Uint8Array): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

/**
 * The entries of the object that begins at `start`, space before it allowed, and ends before `end`, space behind it
 * allowed. What is within a value is not checked. Throws `NotTaken`, also half way.
 */
export function* jsonEntries(bytes: Uint8Array, start: number, end: number): Generator<JsonEntry> {
  let at = expect(bytes, skipSpace(bytes, start, end), OPEN);
  at = skipSpace(bytes, at, end);
  if (bytes[at] === CLOSE) at++;
  else {
    for (;;) {
      const close = endOfString(bytes, expect(bytes, at, QUOTE), end);
      const key = parseText(bytes, at, close) as string;
      at = skipSpace(bytes, expect(bytes, skipSpace(bytes, close, end), COLON), end);
      const valueEnd = endOfValue(bytes, at, end);
      yield { key, start: at, end: valueEnd };
      at = skipSpace(bytes, valueEnd, end);
      if (bytes[at] === CLOSE) break;
      at = skipSpace(bytes, expect(bytes, at, COMMA), end);
    }
    at++;
  }
  if (skipSpace(bytes, at, end) !== end) throw new NotTaken();
}

/** Parses a part of the text. Throws `NotTaken` when it is not JSON. */
export function parseText(bytes: Uint8Array, start: number, end: number): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString()) as unknown;
  } catch {
    throw new NotTaken();
  }
}

function expect(bytes: Uint8Array, at: number, byte: number): number {
  if (bytes[at] !== byte) throw new NotTaken();
  return at + 1;
}

function skipSpace(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && isSpace(bytes[at]!)) at++;
  return at;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d && byte !== 0x0b && byte !== 0x0c);
}

/** One past the quote that ends the string; `from` is one past the quote that begins it. */
function endOfString(bytes: Uint8Array, from: number, end: number): number {
  for (let at = from; at < end; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at + 1;
  }
  throw new NotTaken();
}

function endOfValue(bytes: Uint8Array, from: number, end: number): number {
  const first = bytes[from]!;
  if (first === QUOTE) return endOfString(bytes, from + 1, end);
  let at = from;
  if (first !== OPEN && first !== OPEN_LIST) {
    while (at < end && bytes[at] !== COMMA && bytes[at] !== CLOSE && !isSpace(bytes[at]!)) at++;
    return at;
  }
  for (let depth = 0; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) at = endOfString(bytes, at + 1, end) - 1;
    else if (byte === OPEN || byte === OPEN_LIST) {
      if (++depth > MAX_DEPTH) throw new NotTaken();
    } else if ((byte === CLOSE || byte === CLOSE_LIST) && --depth === 0) return at + 1;
  }
  throw new NotTaken();
}
