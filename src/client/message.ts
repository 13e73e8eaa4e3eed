/** Replies of name servers, as far as finding a service needs them. */
import { CLASS, EDE, HEADER_BYTES, MAX_LABEL, MAX_NAME, OPTION_EDE, RCODE, TYPE } from '../dns/constants.js';

export type Answer =
  | {
      readonly type: 'SRV';
      readonly name: string;
      readonly ttl: number;
      readonly priority: number;
      readonly weight: number;
      readonly port: number;
      readonly target: string;
    }
  | { readonly type: 'address'; readonly name: string; readonly ttl: number; readonly address: string }
  | { readonly type: 'CNAME'; readonly name: string; readonly ttl: number; readonly target: string };

export interface Reply {
  readonly truncated: boolean;
  readonly rcode: number;
  /** Records of the answer section; of the additional one, addresses. Names are lower case, without trailing dot. */
  readonly answers: readonly Answer[];
  readonly additional: readonly Answer[];
  /** Of the SOA in a negative answer (RFC 2308), in seconds. */
  readonly negativeTtl: number | undefined;
  /** The code and text of an extended error (RFC 8914). */
  readonly extended: { readonly code: number; readonly text: string } | undefined;
}

const QR = 0x8000;
const TC = 0x0200;
/** A TTL above is a negative number of an old server, and means 0 (RFC 2181 s.8). */
const MAX_TTL = 0x7fffffff;

/**
 * The reply with `id` to a question for `name` and `type`; undefined when the bytes are something else, or cannot be
 * read to the end. Of a truncated one the header is enough.
 */
export function readReply(bytes: Uint8Array, id: number, name: string, type: number): Reply | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const flags = view.getUint16(2);
  if (view.getUint16(0) !== id || (flags & QR) === 0) return undefined;
  const rcode = flags & 0x0f;
  const questions = view.getUint16(4);
  try {
    let at = HEADER_BYTES;
    if (questions === 1) {
      const asked = readName(view, at);
      at = asked.end + 4;
      if (asked.name !== name.toLowerCase() || view.getUint16(asked.end) !== type) return undefined;
    } else if (questions !== 0 || rcode === RCODE.NOERROR) return undefined;
    const truncated = (flags & TC) !== 0;
    const empty = { truncated, rcode, answers: [], additional: [], negativeTtl: undefined, extended: undefined };
    return truncated ? empty : readSections(view, at, rcode);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function readSections(view: DataView, start: number, rcode: number): Reply {
  const counts = [view.getUint16(6), view.getUint16(8), view.getUint16(10)];
  const answers: Answer[] = [];
  const additional: Answer[] = [];
  let negativeTtl: number | undefined;
  let extended: Reply['extended'];
  let at = start;
  for (const [section, count] of counts.entries()) {
    for (let i = 0; i < count; i++) {
      const owner = readName(view, at);
      const type = view.getUint16(owner.end);
      const kind = view.getUint16(owner.end + 2);
      const ttl = ttlOf(view.getUint32(owner.end + 4));
      const data = owner.end + 10;
      const size = view.getUint16(owner.end + 8);
      at = data + size;
      if (at > view.byteLength) throw new RangeError('a record goes beyond the message');
      if (type === TYPE.OPT) extended ??= readExtended(view, data, at);
      else if (section === 1 && type === TYPE.SOA && size >= 22)
        negativeTtl = Math.min(ttl, ttlOf(view.getUint32(at - 4)));
      if (kind !== CLASS.IN || section === 1) continue;
      const answer = readRecord(view, owner.name, type, ttl, data, size);
      if (answer !== undefined) (section === 0 ? answers : additional).push(answer);
    }
  }
  return { truncated: false, rcode, answers, additional, negativeTtl, extended };
}

function readRecord(
  view: DataView,
  name: string,
  type: number,
  ttl: number,
  at: number,
  size: number,
): Answer | undefined {
  if (type === TYPE.SRV && size >= 7) {
    const [priority, weight, port] = [view.getUint16(at), view.getUint16(at + 2), view.getUint16(at + 4)];
    return { type: 'SRV', name, ttl, priority, weight, port, target: readName(view, at + 6).name };
  }
  if (type === TYPE.CNAME) return { type: 'CNAME', name, ttl, target: readName(view, at).name };
  const family = type === TYPE.A && size === 4 ? 4 : type === TYPE.AAAA && size === 16 ? 16 : 0;
  if (family === 0) return undefined;
  return { type: 'address', name, ttl, address: addressAt(view, at, family) };
}

function addressAt(view: DataView, at: number, size: 4 | 16): string {
  const parts: string[] = [];
  if (size === 4) for (let i = 0; i < 4; i++) parts.push(String(view.getUint8(at + i)));
  else for (let i = 0; i < 16; i += 2) parts.push(view.getUint16(at + i).toString(16));
  return parts.join(size === 4 ? '.' : ':');
}

function readExtended(view: DataView, start: number, end: number): Reply['extended'] {
  for (let at = start; at + 4 <= end; ) {
    const size = view.getUint16(at + 2);
    if (view.getUint16(at) === OPTION_EDE && size >= 2 && at + 4 + size <= end) {
      const text = new Uint8Array(view.buffer, view.byteOffset + at + 6, size - 2);
      return { code: view.getUint16(at + 4), text: new TextDecoder().decode(text) };
    }
    at += 4 + size;
  }
  return undefined;
}

function ttlOf(ttl: number): number {
  return ttl > MAX_TTL ? 0 : ttl;
}

/** In lower case, without trailing dot; the root is ''. Throws RangeError. */
function readName(view: DataView, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = start;
  let end = -1;
  let length = 0;
  for (;;) {
    const size = view.getUint8(at);
    if (size >= 0xc0) {
      const to = view.getUint16(at) & 0x3fff;
      if (end < 0) end = at + 2;
      // A pointer leads back (RFC 1035 s.4.1.4), so that this comes to an end.
      if (to >= at) throw new RangeError('a name points forward');
      at = to;
      continue;
    }
    if (size > MAX_LABEL) throw new RangeError('a label of an unknown kind');
    if (size === 0) return { name: labels.join('.'), end: end < 0 ? at + 1 : end };
    length += size + 1;
    if (length >= MAX_NAME) throw new RangeError('a name is too long');
    let label = '';
    for (let i = 1; i <= size; i++) label += String.fromCharCode(view.getUint8(at + i));
    labels.push(label.toLowerCase());
    at += size + 1;
  }
}

/** Words for an answer that is a failure. */
export function showFailure({ rcode, extended }: Reply): string {
  const name = Object.entries(RCODE).find(([, code]) => code === rcode)?.[0] ?? `RCODE ${rcode}`;
  if (extended === undefined) return name;
  const code = Object.entries(EDE).find(([, number]) => number === extended.code)?.[0];
  const words = extended.text || code?.toLowerCase().replaceAll('_', ' ');
  return words ? `${name} (${words})` : name;
}
