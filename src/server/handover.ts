/**
 * Questions on their way from a thread that answers to the control thread: those that no zone owns. A ring in shared
 * memory with one writer and one reader; what is in it and what the control thread still works on is bounded, in all
 * and for each client. What a dead thread has handed over stays valid for the next one.
 */
import type { Peer, Transport } from './reply.js';

const RING_BYTES = 256 * 1024;
const RING_MASK = RING_BYTES - 1;
/** Questions without an answer yet, of one thread. */
const MAX_PENDING = 1_024;
/** The same for one client: an address, on this host an address and port. */
const MAX_PENDING_CLIENT = 256;
const BUCKETS = 1_024;

/** Words of the head. Positions count bytes and wrap at 2^32. */
const WRITTEN = 0;
const READ = 1;
const PENDING = 2;
/** 1 while the reader waits to be woken. */
const ASLEEP = 3;
const NEXT_TOKEN = 4;
const CLIENTS = 16;

/** Words of a record, then the peer's 16 bytes, key, name, control data and query. */
const RECORD_WORDS = 6;
const PEER_BYTES = 16;
const FIXED_BYTES = RECORD_WORDS * 4 + PEER_BYTES;
/** Beside the family in a record's kind. */
const TCP = 2;
const TOLD = 4;
/** Nobody waits for it. */
const NO_BUCKET = 0;
/** As the token: the rest of the ring up to its end is not used. */
const FILLER = 0;

export interface HandoverMemory {
  readonly head: Int32Array;
  readonly ring: Uint8Array;
}

export function handoverMemory(): HandoverMemory {
  return {
    head: new Int32Array(new SharedArrayBuffer((CLIENTS + BUCKETS) * 4)),
    ring: new Uint8Array(new SharedArrayBuffer(RING_BYTES)),
  };
}

/** Where a datagram came from and by which socket, in the words of the system calls; empty where there are none. */
export interface Envelope {
  /** The socket's plan key. */
  readonly key: Uint8Array;
  /** sockaddr and control data, as received. */
  readonly name: Uint8Array;
  readonly control: Uint8Array;
}

export const NO_BYTES = new Uint8Array(0);
export const NO_ENVELOPE: Envelope = { key: NO_BYTES, name: NO_BYTES, control: NO_BYTES };

/** The thread's side. */
export class HandoverWriter {
  readonly #head: Int32Array;
  readonly #ring: Uint8Array;
  readonly #words: Int32Array;
  #told = true;

  constructor({ head, ring }: HandoverMemory) {
    this.#head = head;
    this.#ring = ring;
    this.#words = new Int32Array(ring.buffer);
  }

  /** A token for the reply, never 0 and never the same; 0 when there are too many questions already. `port` is the client's. */
  put(
    query: Uint8Array,
    length: number,
    peer: Peer,
    port: number,
    listen: number,
    transport: Transport,
    envelope: Envelope,
  ): number {
    const head = this.#head;
    const bucket = CLIENTS + bucketOf(peer, port);
    if (Atomics.load(head, PENDING) >= MAX_PENDING || Atomics.load(head, bucket) >= MAX_PENDING_CLIENT) return 0;
    return this.#put(query, length, peer, bucket, listen, transport === 'tcp' ? TCP : 0, envelope, RING_BYTES);
  }

  /** Says that this was asked and has been answered. Takes no room that questions without an answer may need. */
  tell(query: Uint8Array, length: number, peer: Peer, listen: number, transport: Transport): void {
    const kind = transport === 'tcp' ? TCP | TOLD : TOLD;
    this.#put(query, length, peer, NO_BUCKET, listen, kind, NO_ENVELOPE, RING_BYTES / 4);
  }

  #put(
    query: Uint8Array,
    length: number,
    peer: Peer,
    bucket: number,
    listen: number,
    kind: number,
    envelope: Envelope,
    bytesAtMost: number,
  ): number {
    const head = this.#head;
    const { key, name, control } = envelope;
    const size = (FIXED_BYTES + key.length + name.length + control.length + length + 7) & ~7;
    let at = this.#room(size, bytesAtMost);
    if (at < 0) return 0;
    const token = this.#token();
    const words = this.#words;
    const word = at >>> 2;
    words[word] = size;
    words[word + 1] = token;
    words[word + 2] = bucket;
    words[word + 3] = (listen << 16) | kind | (peer.family === 6 ? 1 : 0);
    words[word + 4] = (key.length << 16) | (name.length << 8) | control.length;
    words[word + 5] = length;
    const ring = this.#ring;
    at += RECORD_WORDS * 4;
    const bytes = peer.family === 4 ? 4 : 16;
    for (let i = 0; i < bytes; i++) ring[at + i] = peer.bytes[peer.offset + i]!;
    at += PEER_BYTES;
    at = copy(ring, at, key, key.length);
    at = copy(ring, at, name, name.length);
    at = copy(ring, at, control, control.length);
    copy(ring, at, query, length);
    if (bucket !== NO_BUCKET) {
      Atomics.add(head, PENDING, 1);
      Atomics.add(head, bucket, 1);
    }
    Atomics.store(head, WRITTEN, (Atomics.load(head, WRITTEN) + size) | 0);
    this.#told = false;
    return token;
  }

  /** Once after a batch: must the reader be woken? */
  mustWake(): boolean {
    if (this.#told) return false;
    this.#told = true;
    return Atomics.exchange(this.#head, ASLEEP, 0) === 1;
  }

  /** Offset of `size` bytes in one piece, -1 when there would be more than `most` in the ring. */
  #room(size: number, most: number): number {
    const head = this.#head;
    const written = Atomics.load(head, WRITTEN);
    const used = (written - Atomics.load(head, READ)) >>> 0;
    const at = written & RING_MASK;
    const left = RING_BYTES - at;
    if (left >= size) return used + size <= most ? at : -1;
    if (used + left + size > most) return -1;
    this.#words[at >>> 2] = left;
    this.#words[(at >>> 2) + 1] = FILLER;
    Atomics.store(head, WRITTEN, (written + left) | 0);
    return 0;
  }

  #token(): number {
    let token = (Atomics.add(this.#head, NEXT_TOKEN, 1) + 1) | 0;
    if (token === FILLER) token = (Atomics.add(this.#head, NEXT_TOKEN, 1) + 1) | 0;
    return token;
  }
}

/** A question as the control thread has it. All bytes are its own. */
export interface HandedOver {
  readonly token: number;
  readonly transport: Transport;
  readonly peer: Peer;
  /** Index of the listen address that was asked. */
  readonly listen: number;
  readonly query: Uint8Array;
  readonly envelope: Envelope;
  /** It has been answered. */
  readonly told: boolean;
  /** For `done`. */
  readonly bucket: number;
}

/** The control thread's side. */
export class HandoverReader {
  readonly #head: Int32Array;
  readonly #ring: Uint8Array;
  readonly #words: Int32Array;

  constructor({ head, ring }: HandoverMemory) {
    this.#head = head;
    this.#ring = ring;
    this.#words = new Int32Array(ring.buffer);
    Atomics.store(head, ASLEEP, 1);
  }

  /** The next question, undefined when there is none. */
  take(): HandedOver | undefined {
    const head = this.#head;
    for (;;) {
      const read = Atomics.load(head, READ);
      if (read === Atomics.load(head, WRITTEN)) return undefined;
      const at = read & RING_MASK;
      const word = at >>> 2;
      const size = this.#words[word]!;
      const token = this.#words[word + 1]!;
      const question = token === FILLER ? undefined : this.#read(at, token);
      Atomics.store(head, READ, (read + size) | 0);
      if (question) return question;
    }
  }

  /** After `take` gave nothing: true when the writer will wake the reader, false when more has come meanwhile. */
  sleep(): boolean {
    const head = this.#head;
    Atomics.store(head, ASLEEP, 1);
    return Atomics.load(head, READ) === Atomics.load(head, WRITTEN) || Atomics.exchange(head, ASLEEP, 0) === 0;
  }

  /** A question has been answered or dropped. */
  done(question: HandedOver): void {
    if (question.told) return;
    Atomics.sub(this.#head, PENDING, 1);
    Atomics.sub(this.#head, question.bucket, 1);
  }

  #read(start: number, token: number): HandedOver {
    const words = this.#words;
    const word = start >>> 2;
    const kind = words[word + 3]!;
    const lengths = words[word + 4]!;
    let at = start + RECORD_WORDS * 4;
    const slice = (length: number): Uint8Array => {
      at += length;
      return length === 0 ? NO_BYTES : this.#ring.slice(at - length, at);
    };
    const family = (kind & 1) === 1 ? 6 : 4;
    const peer: Peer = { family, bytes: slice(PEER_BYTES), offset: 0 };
    const envelope = {
      key: slice(lengths >>> 16),
      name: slice((lengths >>> 8) & 0xff),
      control: slice(lengths & 0xff),
    };
    return {
      token,
      transport: (kind & TCP) !== 0 ? 'tcp' : 'udp',
      told: (kind & TOLD) !== 0,
      peer,
      listen: kind >>> 16,
      query: slice(words[word + 5]!),
      envelope,
      bucket: words[word + 2]!,
    };
  }
}

function copy(to: Uint8Array, at: number, from: Uint8Array, length: number): number {
  for (let i = 0; i < length; i++) to[at + i] = from[i]!;
  return at + length;
}

/** On loopback all clients share an address, so the port tells them apart there; of IPv6 the network does. */
function bucketOf({ family, bytes, offset }: Peer, port: number): number {
  const length = family === 4 ? 4 : 8;
  let hash = 0x811c9dc5;
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ bytes[offset + i]!, 0x01000193);
  const loopback = family === 4 ? bytes[offset] === 127 : isLoopback6(bytes, offset);
  if (loopback) hash = Math.imul(Math.imul(hash ^ (port & 0xff), 0x01000193) ^ (port >>> 8), 0x01000193);
  return (hash ^ (hash >>> 15)) & (BUCKETS - 1);
}

function isLoopback6(bytes: Uint8Array, offset: number): boolean {
  for (let i = 0; i < 15; i++) if (bytes[offset + i] !== 0) return false;
  return bytes[offset + 15] === 1;
}
