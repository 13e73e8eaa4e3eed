/** A client that asks one question very often, in batches: node:dgram takes five times as long. Linux with koffi only. */
import {
  BATCH,
  BatchRing,
  HEADER_WORDS,
  IOV_LEN,
  MSG_IOV,
  MSG_IOVLEN,
  MSG_LEN,
  MSG_NAME,
  MSG_NAMELEN,
  SLOT_IOV_WORDS,
} from '../src/server/batch-ring.js';
import { loadLinuxCalls } from '../src/server/linux-calls.js';
import { socketAddress } from '../src/server/linux-sockets.js';

const AF_INET = 2;
const SOCK_DGRAM_NONBLOCK = 2 | 0o4000;
const MSG_DONTWAIT = 0x40;
const POLLIN = 1;
const PATIENCE_MS = 5_000;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const SO_RCVBUFFORCE = 33;
/** What a reply takes of the receive buffer, generously. */
const REPLY_BYTES = 2_048;

/** Asks `count` times over IPv4 loopback, blocking the thread. Returns how many replies were as expected: these bytes, or so many. */
export function blast(port: number, query: Uint8Array, expected: Uint8Array | number, count: number): number {
  const calls = loadLinuxCalls();
  if (typeof calls === 'string') throw new Error(calls);
  const ring = new BatchRing(calls, 512);
  const { words } = ring;
  const server = socketAddress('127.0.0.1', port)!;
  for (let slot = 0; slot < BATCH; slot++) {
    ring.answers[slot]!.set(query);
    ring.bytes.set(server, ring.name(slot));
    const iov = ring.sendIov + slot * SLOT_IOV_WORDS;
    const header = ring.send + slot * HEADER_WORDS;
    words.set(ring.answerPointers.subarray(slot * 2, slot * 2 + 2), iov);
    words[iov + IOV_LEN] = query.length;
    words.set(ring.namePointers.subarray(slot * 2, slot * 2 + 2), header + MSG_NAME);
    words[header + MSG_NAMELEN] = server.length;
    words.set(ring.iovPointers.subarray(slot * 2, slot * 2 + 2), header + MSG_IOV);
    words[header + MSG_IOVLEN] = 1;
    // Replies come from where queries go, so one name serves both.
    words[ring.receive + slot * HEADER_WORDS + MSG_NAMELEN] = 0;
    words.fill(0, ring.receive + slot * HEADER_WORDS + MSG_NAME, ring.receive + slot * HEADER_WORDS + MSG_NAMELEN);
  }
  const fd = calls.socket(AF_INET, SOCK_DGRAM_NONBLOCK, 0);
  const size = new Uint8Array(new Int32Array([4 * 1024 * 1024]).buffer);
  const forced = calls.setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, size, 4) === 0;
  if (!forced) calls.setsockopt(fd, SOL_SOCKET, SO_RCVBUF, size, 4);
  calls.getsockopt(fd, SOL_SOCKET, SO_RCVBUF, size, new Uint8Array(new Int32Array([4]).buffer));
  const window = Math.min(1_024, Math.floor(new Int32Array(size.buffer)[0]! / REPLY_BYTES));
  const polled = new Int32Array(new ArrayBuffer(8));
  const polledBytes = new Uint8Array(polled.buffer);
  let sent = 0;
  let good = 0;
  for (let replies = 0; replies < count; ) {
    while (sent < count && sent - replies < window) {
      const batch = Math.min(BATCH, count - sent, window - (sent - replies));
      const done = calls.sendmmsg(fd, ring.sendHeadersFrom[0]!, batch, MSG_DONTWAIT);
      if (done <= 0) break;
      sent += done;
    }
    polled[0] = fd;
    polled[1] = POLLIN;
    if (calls.poll(polledBytes, 1, PATIENCE_MS) <= 0) break;
    const received = calls.recvmmsg(fd, ring.receiveHeaders, BATCH, MSG_DONTWAIT, null);
    for (let slot = 0; slot < received; slot++) {
      const length = words[ring.receive + slot * HEADER_WORDS + MSG_LEN]!;
      if (typeof expected === 'number') good += length === expected ? 1 : 0;
      else if (Buffer.compare(ring.queries[slot]!.subarray(0, length), expected) === 0) good++;
    }
    if (received > 0) replies += received;
  }
  calls.close(fd);
  return good;
}
