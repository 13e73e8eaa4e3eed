/** One message to a name server and its reply, over UDP or TCP. What is a reply to it the caller decides. */
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import type { Ms } from '../system/clock.js';

/** The server did not give a usable reply; the message says why. */
export class NoReply extends Error {}

export interface ExchangeOptions<T> {
  readonly server: ListenAddress;
  readonly timeoutMs: Ms;
  /** What the bytes are, or undefined when they are no reply to the query. */
  readonly accept: (bytes: Buffer) => T | undefined;
}

/** Datagrams are lost: after half of the time the query is sent once more. */
const UDP_TRIES = 2;

/** Rejects with NoReply. Datagrams from elsewhere, and such as `accept` does not take, are passed over. */
export function exchangeUdp<T>(query: Uint8Array, { server, timeoutMs, accept }: ExchangeOptions<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4');
    let tries = 1;
    let done = false;
    const timer = setInterval(() => {
      if (tries++ >= UDP_TRIES) finish(new NoReply(`no reply within ${timeoutMs} ms`));
      else socket.send(query);
    }, timeoutMs / UDP_TRIES);
    const finish = (result: T | NoReply) => {
      if (done) return;
      done = true;
      clearInterval(timer);
      socket.close();
      if (result instanceof NoReply) reject(result);
      else resolve(result);
    };
    socket.on('error', (error) => finish(new NoReply(reasonFor(error))));
    socket.on('message', (bytes, from) => {
      if (canonicalAddress(from.address) !== server.address || from.port !== server.port) return;
      const reply = accept(bytes);
      // Something else than our reply: forged, or late from an earlier question. Ours may still come.
      if (reply !== undefined) finish(reply);
    });
    socket.connect(server.port, server.address, () => socket.send(query));
  });
}

/** Rejects with NoReply. */
export function exchangeTcp<T>(query: Uint8Array, { server, timeoutMs, accept }: ExchangeOptions<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: server.address, port: server.port });
    const timer = setTimeout(() => finish(new NoReply(`no reply within ${timeoutMs} ms`)), timeoutMs);
    const chunks: Buffer[] = [];
    let have = 0;
    let need = 2;
    const finish = (result: T | NoReply) => {
      clearTimeout(timer);
      socket.destroy();
      if (result instanceof NoReply) reject(result);
      else resolve(result);
    };
    socket.on('connect', () => {
      const length = Buffer.from([query.length >> 8, query.length & 0xff]);
      socket.write(Buffer.concat([length, query]));
    });
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      have += chunk.length;
      if (have < need) return;
      const all = Buffer.concat(chunks);
      need = 2 + all.readUInt16BE(0);
      if (have < need) return;
      finish(accept(all.subarray(2, need)) ?? new NoReply('the reply does not belong to the question'));
    });
    socket.on('error', (error) => finish(new NoReply(reasonFor(error))));
    socket.on('close', () => finish(new NoReply('the server closed the connection without a reply')));
  });
}

function reasonFor(error: NodeJS.ErrnoException): string {
  if (error.code === 'ECONNREFUSED') return 'nobody listens there: is `holdfast serve` running?';
  return error.message;
}
