/** NOTIFY (RFC 1996): a primary says that its zone changed. It is believed only so far that the serial is asked for. */
import { createSocket } from 'node:dgram';
import { createServer, isIPv6 } from 'node:net';
import { canonicalAddress, showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import { readMessage, type Tsig } from '../dns/read-message.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import { Frames } from './dns-sockets.js';
import { questionFault, signMessage, TSIG_ERROR, type TsigKey, unsignedError, wallSeconds } from './dns-tsig.js';
import { requestFailure } from './http-failure.js';

const OPCODE_NOTIFY = 4;
/** QR, opcode NOTIFY, AA. */
const REPLY_FLAGS = 0x80 | (OPCODE_NOTIFY << 3) | 0x04;
const HEADER_BYTES = 12;
/** However often it is said. */
const LEAST_PAUSE_MS: Ms = 1_000;
/** From an address that cannot be bound to the next try. */
const AGAIN_MS: Ms = 2_000;
const MAX_CONNECTIONS = 8;
const CONNECTION_MS: Ms = 2_000;

export interface NotifyOptions {
  readonly listen: ListenAddress;
  readonly zone: string;
  /** Who may say so, by address. */
  readonly servers: readonly ListenAddress[];
  /** The key that NOTIFY has to be signed with, read anew; undefined: it need not be signed. */
  readonly key: () => Promise<TsigKey | Failure | undefined>;
  readonly changed: () => void;
  readonly failed: (reason: string) => void;
}

/** By address: the zones that are told at one address have one listener. */
const listeners = new Map<string, NotifyListener>();

/** Listens over UDP and TCP, as soon as it can. Returns what ends it. */
export function listenForNotify(options: NotifyOptions): () => void {
  const place = showListen(options.listen);
  const listener = listeners.get(place) ?? new NotifyListener(options.listen);
  listeners.set(place, listener);
  const changed = paced(options.changed);
  const reader = new NotifyReader(options, changed.tell);
  listener.add(reader);
  return () => {
    changed.end();
    if (listener.remove(reader)) listeners.delete(place);
  };
}

/** The sockets of one address. */
class NotifyListener {
  readonly #readers = new Set<NotifyReader>();
  readonly #ends: readonly (() => void)[];
  /** Why they are not open. */
  readonly #faults = new Map<string, string>();

  constructor(listen: ListenAddress) {
    this.#ends = [this.#kept(overUdp, listen), this.#kept(overTcp, listen)];
  }

  add(reader: NotifyReader): void {
    this.#readers.add(reader);
    for (const fault of new Set(this.#faults.values())) reader.failed(fault);
  }

  /** Returns whether nobody listens any more. */
  remove(reader: NotifyReader): boolean {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return false;
    for (const end of this.#ends) end();
    return true;
  }

  isServer(from: string | undefined): from is string {
    return from !== undefined && [...this.#readers].some((reader) => reader.isServer(from));
  }

  /** The reply to a NOTIFY of one of the zones; undefined for everything else. */
  async take(bytes: Uint8Array, from: string): Promise<Uint8Array | undefined> {
    const asked = [...this.#readers].filter((reader) => reader.isServer(from));
    const taken = await Promise.all(asked.map(async (reader) => ({ reader, verdict: await reader.take(bytes) })));
    const verdicts = taken.flatMap(({ verdict }) => verdict ?? []);
    const believed = verdicts.find(({ fault }) => fault === undefined);
    // What one of them believes was meant for that one: the others have their own keys.
    if (believed === undefined) for (const { reader, verdict } of taken) reader.refused(from, verdict?.fault);
    return (believed ?? verdicts[0])?.reply;
  }

  #kept(open: typeof overUdp, listen: ListenAddress): () => void {
    const tell = (error: Error): void => {
      const fault = `NOTIFY on ${listen.address} port ${listen.port}: ${requestFailure(error).reason}`;
      this.#faults.set(open.name, fault);
      for (const reader of this.#readers) reader.failed(fault);
    };
    return kept(
      (events) => open(listen, this, events),
      tell,
      () => this.#faults.delete(open.name),
    );
  }
}

interface SocketEvents {
  readonly bound: () => void;
  readonly failed: (error: Error) => void;
}

/** Opens a socket, and a while after it failed another one. The same fault is told once. */
function kept(
  open: (events: SocketEvents) => () => void,
  tell: (error: Error) => void,
  mended: () => void,
): () => void {
  let told: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let close = (): void => undefined;
  const begin = (): void => {
    close = open({
      bound: () => {
        told = undefined;
        mended();
      },
      failed: (error) => {
        if (error.message !== told) tell(error);
        told = error.message;
        close();
        close = () => undefined;
        clearTimeout(timer);
        timer = setTimeout(begin, AGAIN_MS);
      },
    });
  };
  begin();
  return () => {
    clearTimeout(timer);
    close();
  };
}

function overUdp({ address, port }: ListenAddress, listener: NotifyListener, events: SocketEvents): () => void {
  const udp = createSocket({ type: isIPv6(address) ? 'udp6' : 'udp4', reuseAddr: true });
  let open = true;
  udp.on('error', events.failed);
  udp.on('listening', events.bound);
  udp.on('message', async (bytes, from) => {
    // Nobody can be answered at port 0.
    if (from.port === 0 || !listener.isServer(from.address)) return;
    const reply = await listener.take(bytes, from.address);
    if (reply !== undefined && open) udp.send(reply, from.port, from.address, () => undefined);
  });
  udp.bind({ address, port, exclusive: false });
  return () => {
    open = false;
    udp.close();
  };
}

function overTcp({ address, port }: ListenAddress, listener: NotifyListener, events: SocketEvents): () => void {
  const tcp = createServer((socket) => {
    socket.on('error', () => undefined);
    const from = socket.remoteAddress;
    if (!listener.isServer(from)) {
      socket.destroy();
      return;
    }
    socket.setTimeout(CONNECTION_MS, () => socket.destroy());
    const frames = new Frames();
    socket.on('data', async (chunk) => {
      const [bytes] = frames.take(chunk);
      if (bytes === undefined) return;
      socket.pause();
      const reply = await listener.take(bytes, from);
      if (reply === undefined) socket.destroy();
      else socket.end(Buffer.concat([Buffer.from([reply.length >> 8, reply.length & 0xff]), reply]));
    });
  });
  tcp.maxConnections = MAX_CONNECTIONS;
  tcp.on('error', events.failed);
  tcp.on('listening', events.bound);
  tcp.listen({ host: address, port, exclusive: false });
  return () => void tcp.close();
}

interface Verdict {
  readonly reply: Uint8Array;
  /** Why it does not count. */
  readonly fault?: string;
}

/** Reads one NOTIFY after the other. */
class NotifyReader {
  readonly #options: NotifyOptions;
  readonly #changed: () => void;
  /** A key is being read: what comes meanwhile is dropped, and said again by whoever means it. */
  #busy = false;
  /** What was told last, so that it is told once. */
  #told: string | undefined;

  constructor(options: NotifyOptions, changed: () => void) {
    this.#options = options;
    this.#changed = changed;
  }

  isServer(from: string): boolean {
    return this.#options.servers.some(({ address }) => address === canonicalAddress(from));
  }

  failed(reason: string): void {
    this.#options.failed(reason);
  }

  /** What a NOTIFY of the zone comes to; undefined for everything else. */
  async take(bytes: Uint8Array): Promise<Verdict | undefined> {
    const { zone } = this.#options;
    const message = readMessage(bytes);
    if (message === undefined || message.isReply || message.opcode !== OPCODE_NOTIFY || this.#busy) return undefined;
    if (message.question?.type !== TYPE.SOA || message.question.name !== zone) return undefined;
    this.#busy = true;
    const key = await this.#options.key();
    this.#busy = false;
    if (key === undefined) {
      this.#changed();
      return { reply: replyTo(bytes, zone, RCODE.NOERROR) };
    }
    if ('reason' in key) return { reply: replyTo(bytes, zone, RCODE.SERVFAIL), fault: key.reason };
    return this.#signed(bytes, message.tsig, key);
  }

  #signed(bytes: Uint8Array, tsig: Tsig | undefined, key: TsigKey): Verdict {
    const { zone } = this.#options;
    if (tsig === undefined) return { reply: replyTo(bytes, zone, RCODE.REFUSED), fault: 'it is not signed' };
    const seconds = wallSeconds();
    const error = questionFault(bytes, tsig, key, seconds);
    if (error === TSIG_ERROR.NONE) {
      this.#told = undefined;
      this.#changed();
      return { reply: signMessage(replyTo(bytes, zone, RCODE.NOERROR), { key, seconds, question: tsig }).bytes };
    }
    const reply = replyTo(bytes, zone, RCODE.NOTAUTH);
    if (error !== TSIG_ERROR.BADTIME)
      return { reply: unsignedError(reply, tsig, error), fault: 'it is signed with another key' };
    const signed = signMessage(reply, { key, seconds, question: tsig, error });
    return { reply: signed.bytes, fault: 'its clock and ours differ' };
  }

  /** Tells what is wrong with a NOTIFY, once. */
  refused(from: string, fault: string | undefined): void {
    const text = `NOTIFY of ${from} does not count: ${fault}`;
    if (fault === undefined || text === this.#told) return;
    this.#told = text;
    this.#options.failed(text);
  }
}

/** At once when it was quiet, and not more often than is bearable. */
function paced(run: () => void): { readonly tell: () => void; readonly end: () => void } {
  let timer: NodeJS.Timeout | undefined;
  let last = Number.NEGATIVE_INFINITY;
  const tell = (): void => {
    timer ??= setTimeout(
      () => {
        timer = undefined;
        last = performance.now();
        run();
      },
      Math.max(0, last + LEAST_PAUSE_MS - performance.now()),
    );
  };
  return { tell, end: () => clearTimeout(timer) };
}

/** The header and the question, no records (RFC 1996 s.3.7). */
function replyTo(bytes: Uint8Array, zone: string, rcode: number): Uint8Array {
  const question = zone.length + 2 + 4;
  const reply = Uint8Array.from(bytes.subarray(0, HEADER_BYTES + question));
  reply[2] = REPLY_FLAGS;
  reply[3] = rcode;
  reply.fill(0, 6, HEADER_BYTES);
  return reply;
}
