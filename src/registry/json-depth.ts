/** Lists and maps within one another: a parser keeps some 50 bytes for each that is open, and a level costs one byte. */

/** What registries say has some ten levels. */
export const MAX_DEPTH = 200;
/** Smaller bodies cannot take much. */
const LARGE_BYTES = 8 * 1024 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Is a large body of JSON nested deeper than anything that a registry says? To be asked before it is parsed. */
export function tooDeep(bytes: Uint8Array): boolean {
  if (bytes.length <= LARGE_BYTES) return false;
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    // [ and {, ] and }: they differ in one bit.
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
    } else if ((byte | 0x20) === 0x7b) {
      if (++depth > MAX_DEPTH) return true;
    } else if ((byte | 0x20) === 0x7d) depth--;
  }
  return false;
}

/** As `JSON.parse`, of an answer that may be large and may be anything. */
export function parseBody(body: Buffer | string): unknown {
  if (tooDeep(typeof body === 'string' ? Buffer.from(body) : body)) throw new SyntaxError('nested too deeply');
  return JSON.parse(body.toString('utf8'));
}
