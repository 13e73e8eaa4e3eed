/**
 * Sends replies of the control thread by the sockets of the batched transport, to where each question came from and
 * from the address that was asked. Those threads run no event loop that could take a reply and send it.
 */
import {
  BATCH,
  BatchRing,
  CONTROL_BYTES,
  HEADER_WORDS,
  IOV_LEN,
  MSG_CONTROL,
  MSG_CONTROLLEN,
  MSG_IOV,
  MSG_IOVLEN,
  MSG_NAME,
  MSG_NAMELEN,
  NAME_BYTES,
  SLOT_IOV_WORDS,
} from './batch-ring.js';
import type { Envelope } from './handover.js';
import { EINTR, type LinuxCalls } from './linux-calls.js';

const MSG_DONTWAIT = 0x40;

export class ReplySocket {
  /** Replies that could not be sent. */
  failures = 0;
  readonly #calls: LinuxCalls;
  readonly #ring: BatchRing;
  readonly #maxBytes: number;
  #fd = -1;
  #waiting = 0;

  /** `maxBytes`: of the largest reply. */
  constructor(calls: LinuxCalls, maxBytes: number) {
    this.#calls = calls;
    this.#maxBytes = maxBytes;
    this.#ring = new BatchRing(calls, maxBytes);
  }

  /** Queues a reply; it leaves at the next `flush` at the latest. `fd` is open until then. */
  put(fd: number, { name, control }: Envelope, message: Uint8Array): void {
    if (message.length > this.#maxBytes || name.length > NAME_BYTES || control.length > CONTROL_BYTES) {
      this.failures++;
      return;
    }
    if (fd !== this.#fd || this.#waiting === BATCH) this.flush();
    this.#fd = fd;
    const ring = this.#ring;
    const { words } = ring;
    const slot = this.#waiting++;
    ring.answers[slot]!.set(message);
    ring.bytes.set(name, ring.name(slot));
    ring.bytes.set(control, ring.control(slot));
    const iov = ring.sendIov + slot * SLOT_IOV_WORDS;
    const header = ring.send + slot * HEADER_WORDS;
    const pair = (pointers: Uint32Array, at: number): void => {
      words[at] = pointers[slot * 2]!;
      words[at + 1] = pointers[slot * 2 + 1]!;
    };
    pair(ring.answerPointers, iov);
    words[iov + IOV_LEN] = message.length;
    pair(ring.namePointers, header + MSG_NAME);
    words[header + MSG_NAMELEN] = name.length;
    pair(ring.iovPointers, header + MSG_IOV);
    words[header + MSG_IOVLEN] = 1;
    pair(ring.controlPointers, header + MSG_CONTROL);
    words[header + MSG_CONTROLLEN] = control.length;
  }

  /** Sends what is queued. Never waits: what the kernel does not take at once is dropped and counted. */
  flush(): void {
    const { sendHeadersFrom } = this.#ring;
    const count = this.#waiting;
    this.#waiting = 0;
    for (let done = 0; done < count; ) {
      const sent = this.#calls.sendmmsg(this.#fd, sendHeadersFrom[done]!, count - done, MSG_DONTWAIT);
      if (sent > 0) done += sent;
      else if (this.#calls.errno() !== EINTR) {
        this.failures++;
        done++;
      }
    }
  }
}
