/** Names between text and wire form. Wire form here is never compressed and ends with the root label. */
import { MAX_LABEL, MAX_NAME } from './constants.js';

/** Byte to lower-case byte, ASCII only (RFC 4343). Length octets (0 to 63) map to themselves. */
export const FOLD = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) FOLD[byte] = byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte;

/**
 * Wire form of `labels` below `parent` (itself wire form). Undefined when a label is empty, over 63 octets or
 * outside ASCII, or when the whole is over 255 octets. Case is kept.
 */
export function joinName(labels: readonly string[], parent: Uint8Array): Uint8Array | undefined {
  let length = parent.length;
  for (const label of labels) length += label.length + 1;
  if (length > MAX_NAME) return undefined;
  const wire = new Uint8Array(length);
  let at = 0;
  for (const label of labels) {
    if (label.length === 0 || label.length > MAX_LABEL) return undefined;
    wire[at++] = label.length;
    for (let i = 0; i < label.length; i++) {
      const code = label.charCodeAt(i);
      if (code > 0x7f) return undefined;
      wire[at++] = code;
    }
  }
  wire.set(parent, at);
  return wire;
}

const ROOT = Uint8Array.of(0);

/** Wire form of a dotted name without escapes; a trailing dot is allowed, `.` is the root. Undefined when it has none. */
export function nameToWire(text: string): Uint8Array | undefined {
  const plain = text.endsWith('.') ? text.slice(0, -1) : text;
  return plain === '' ? ROOT : joinName(plain.split('.'), ROOT);
}

/**
 * Text of the uncompressed name at `offset`, without trailing dot, `.` for the root. Dots, backslashes and bytes
 * outside printable ASCII come out escaped (RFC 1035 s.5.1). Undefined when the bytes hold no such name.
 */
export function wireToName(bytes: Uint8Array, offset = 0): string | undefined {
  const labels: string[] = [];
  let at = offset;
  for (;;) {
    const length = bytes[at];
    if (length === undefined || length > MAX_LABEL || at + length >= bytes.length) return undefined;
    if (length === 0) return labels.length === 0 ? '.' : labels.join('.');
    let label = '';
    for (let i = at + 1; i <= at + length; i++) {
      const byte = bytes[i]!;
      if (byte === 0x2e || byte === 0x5c) label += '\\' + String.fromCharCode(byte);
      else if (byte > 0x20 && byte < 0x7f) label += String.fromCharCode(byte);
      else label += '\\' + String(byte).padStart(3, '0');
    }
    labels.push(label);
    at += length + 1;
    if (at - offset >= MAX_NAME) return undefined;
  }
}

/** One letter-digit-hyphen label in lower case, no hyphen at either end (R22). */
export function isHostLabel(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}
