/** What labels of a question are made of, read in place: it is on the query path. */

const HYPHEN = 0x2d;
const UNDERSCORE = 0x5f;

export function lower(byte: number): number {
  return byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte;
}

function isAlphanumeric(byte: number): boolean {
  return (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39);
}

/** Letters, digits and hyphens, no hyphen at either end. */
export function isHost(bytes: Uint8Array, start: number, length: number): boolean {
  if (length === 0) return false;
  for (let i = 0; i < length; i++) {
    const byte = lower(bytes[start + i]!);
    if (!isAlphanumeric(byte) && (byte !== HYPHEN || i === 0 || i === length - 1)) return false;
  }
  return true;
}

/** Letters, digits, hyphens and underscores. `label`: the offset of its length octet. */
export function isWord(bytes: Uint8Array, label: number): boolean {
  const end = label + bytes[label]!;
  for (let at = label + 1; at <= end; at++) {
    const byte = lower(bytes[at]!);
    if (!isAlphanumeric(byte) && byte !== HYPHEN && byte !== UNDERSCORE) return false;
  }
  return true;
}

/** An even number of hexadecimal digits that makes an IPv4 or IPv6 address. */
export function isHexAddress(bytes: Uint8Array, label: number): boolean {
  const length = bytes[label]!;
  if (length !== 8 && length !== 32) return false;
  for (let at = label + 1; at <= label + length; at++) {
    const byte = lower(bytes[at]!);
    if (!(byte >= 0x30 && byte <= 0x39) && !(byte >= 0x61 && byte <= 0x66)) return false;
  }
  return true;
}

/** Does the label begin with an underscore and go on? */
export function isUnderscored(bytes: Uint8Array, label: number): boolean {
  return bytes[label]! > 1 && bytes[label + 1] === UNDERSCORE;
}

/** `text`: lower case, a byte a character. */
export function isLabel(bytes: Uint8Array, label: number, text: string): boolean {
  if (bytes[label] !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (lower(bytes[label + 1 + i]!) !== text.charCodeAt(i)) return false;
  return true;
}
