/**
 * What takes far more to parse than its bytes let expect: lists and maps within one another, of which a parser keeps
 * some 50 bytes for each that is open, and millions of empty ones, which keep it busy for tens of seconds.
 */

/** What registries say has some ten levels. */
export const MAX_DEPTH = 200;
/** There is a list or a map in so many bytes, at most: the shortest target group has three in 36. */
const MAX_SHARE = 8;
/** Smaller bodies cannot take much. */
const LARGE_BYTES = 8 * 1024 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Why a large body of JSON is nothing that a registry says, in words that complete "it is ...". To be asked before it is parsed. */
export function bracketFault(bytes: Uint8Array): 'nested too deeply' | 'mostly brackets' | undefined {
  if (bytes.length <= LARGE_BYTES) return undefined;
  let depth = 0;
  let count = 0;
  for (let at = 0; at < bytes.length; at++) {
    // [ and {, ] and }: they differ in one bit.
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
    } else if ((byte | 0x20) === 0x7b) {
      count++;
      if (++depth > MAX_DEPTH) return 'nested too deeply';
    } else if ((byte | 0x20) === 0x7d) depth--;
  }
  return count > bytes.length / MAX_SHARE ? 'mostly brackets' : undefined;
}

/** As `JSON.parse`, of an answer that may be large and may be anything. */
export function parseBody(body: Buffer | string): unknown {
  const large = body.length > LARGE_BYTES;
  const fault = large ? bracketFault(typeof body === 'string' ? Buffer.from(body) : body) : undefined;
  if (fault !== undefined) throw new SyntaxError(fault);
  return JSON.parse(body.toString('utf8'));
}
