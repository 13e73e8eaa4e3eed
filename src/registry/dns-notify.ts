/** NOTIFY (RFC 1996): a primary says that its zone changed. It is believed only so far that the serial is asked for. */
import { createSocket } from 'node:dgram';
import { createServer, isIPv6 } from 'node:net';
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { TYPE } from '../dns/constants.js';
import { readMessage } from '../dns/read-message.js';
import type { Ms } from '../system/clock.js';
import { requestFailure } from './http-failure.js';

const OPCODE_NOTIFY = 4;
/** QR, opcode NOTIFY, AA. */
const REPLY_FLAGS = 0x80 | (OPCODE_NOTIFY << 3) | 0x04;
const HEADER_BYTES = 12;
/** However often it is said. */
const LEAST_PAUSE_MS: Ms = 1_000;
const MAX_CONNECTIONS = 8;
const CONNECTION_MS: Ms = 2_000;

export interface NotifyOptions {
  readonly listen: ListenAddress;
  readonly zone: string;
  /** Who may say so, by address. */
  readonly servers: readonly ListenAddress[];
  readonly changed: () => void;
  readonly failed: (reason: string) => void;
}

/** Listens over UDP and TCP. Returns what ends it. */
export function listenForNotify(options: NotifyOptions): () => void {
  const { listen, zone, servers, failed } = options;
  const changed = paced(options.changed);
  const fault = (error: Error): void =>
    failed(`NOTIFY on ${listen.address} port ${listen.port}: ${requestFailure(error).reason}`);
  const isServer = (from: string | undefined): boolean => {
    return from !== undefined && servers.some(({ address }) => address === canonicalAddress(from));
  };
  /** The reply to a NOTIFY of the zone; undefined for everything else. */
  const take = (bytes: Uint8Array): Uint8Array | undefined => {
    const message = readMessage(bytes);
    if (message === undefined || message.isReply || message.opcode !== OPCODE_NOTIFY) return undefined;
    if (message.question?.type !== TYPE.SOA || message.question.name !== zone) return undefined;
    changed.tell();
    return replyTo(bytes, zone);
  };
  const udp = createSocket({ type: isIPv6(listen.address) ? 'udp6' : 'udp4', reuseAddr: true });
  udp.on('error', fault);
  udp.on('message', (bytes, from) => {
    const reply = isServer(from.address) ? take(bytes) : undefined;
    if (reply !== undefined) udp.send(reply, from.port, from.address, () => undefined);
  });
  udp.bind({ address: listen.address, port: listen.port, exclusive: false });
  const tcp = createServer((socket) => {
    socket.on('error', () => undefined);
    if (!isServer(socket.remoteAddress)) {
      socket.destroy();
      return;
    }
    socket.setTimeout(CONNECTION_MS, () => socket.destroy());
    let pending = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      const need = pending.length < 2 ? 2 : 2 + pending.readUInt16BE(0);
      if (pending.length < need) return;
      const reply = take(pending.subarray(2, need));
      if (reply === undefined) socket.destroy();
      else socket.end(Buffer.concat([Buffer.from([reply.length >> 8, reply.length & 0xff]), reply]));
    });
  });
  tcp.maxConnections = MAX_CONNECTIONS;
  tcp.on('error', fault);
  tcp.listen({ host: listen.address, port: listen.port, exclusive: false });
  return () => {
    changed.end();
    udp.close();
    tcp.close();
  };
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
function replyTo(bytes: Uint8Array, zone: string): Uint8Array {
  const question = zone.length + 2 + 4;
  const reply = Uint8Array.from(bytes.subarray(0, HEADER_BYTES + question));
  reply[2] = REPLY_FLAGS;
  reply[3] = 0;
  reply.fill(0, 6, HEADER_BYTES);
  return reply;
}
