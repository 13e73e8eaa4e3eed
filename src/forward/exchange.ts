/** One question to one upstream, by a socket of its own: a random port beside the random id (RFC 5452). */
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import type { ListenAddress } from '../config/types.js';
import { belongsTo } from './upstream-message.js';

export interface ExchangeEvents {
  /** A reply to the query; at most once. */
  readonly reply: (message: Uint8Array) => void;
  /** It cannot come any more; at most once, and not after a reply. `here`: for a want of this host, whoever is asked. */
  readonly failed: (reason: string, here: boolean) => void;
  /** Something came that is no reply to the query. */
  readonly forged: () => void;
}

/** Ends it: no event comes after that. None comes before it is there, either. */
export type Cancel = () => void;

export function exchangeUdp(to: ListenAddress, query: Uint8Array, events: ExchangeEvents): Cancel {
  const socket = createSocket({ type: isIPv6(to.address) ? 'udp6' : 'udp4', lookup: literalLookup });
  let open = true;
  const end = (): void => {
    if (!open) return;
    open = false;
    socket.close();
  };
  let told = false;
  const failed = (error: NodeJS.ErrnoException): void => {
    if (!open) return;
    end();
    // Without a descriptor it fails while it is being made.
    queueMicrotask(() => {
      if (told) return;
      told = true;
      events.failed(reasonFor(error), isWant(error));
    });
  };
  socket.on('error', failed);
  // Connected, so that the kernel drops what comes from elsewhere, and tells when nobody listens there. Without a
  // callback, which would be called for an address without a route as well.
  socket.on('connect', () => {
    if (open) socket.send(query, (error) => error && failed(error));
  });
  socket.connect(to.port, to.address);
  socket.on('message', (message) => {
    if (!open) return;
    if (!belongsTo(message, query)) {
      events.forged();
      return;
    }
    end();
    events.reply(message);
  });
  return () => {
    told = true;
    end();
  };
}

export function exchangeTcp(to: ListenAddress, query: Uint8Array, events: ExchangeEvents): Cancel {
  const socket = connect({ host: to.address, port: to.port, noDelay: true });
  // The length, then as much as it says: what comes is copied once, in however small pieces.
  let message = Buffer.alloc(2);
  let begun = false;
  let have = 0;
  let open = true;
  const end = (): void => {
    open = false;
    socket.destroy();
  };
  const failed = (reason: string, here = false): void => {
    if (!open) return;
    end();
    events.failed(reason, here);
  };
  socket.on('error', (error) => failed(reasonFor(error), isWant(error)));
  socket.on('close', () => failed('closed the connection without a reply'));
  socket.on('connect', () => {
    const framed = Buffer.allocUnsafe(2 + query.length);
    framed.writeUInt16BE(query.length, 0);
    framed.set(query, 2);
    socket.write(framed);
  });
  socket.on('data', (chunk) => {
    let at = 0;
    for (;;) {
      const taken = chunk.copy(message, have, at);
      have += taken;
      at += taken;
      if (!open || have < message.length) return;
      if (begun) break;
      begun = true;
      message = Buffer.alloc(message.readUInt16BE(0));
      have = 0;
    }
    if (!belongsTo(message, query)) {
      events.forged();
      failed('the reply belongs to another question');
      return;
    }
    end();
    events.reply(message);
  });
  return end;
}

const WANTS: readonly string[] = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'];

/** Addresses are literals already: no look-up, and no thread of the pool for it. */
function literalLookup(host: string, ...rest: unknown[]): void {
  const done = rest.at(-1) as (error: Error | null, address: string, family: number) => void;
  done(null, host, isIPv6(host) ? 6 : 4);
}

function isWant({ code = '' }: NodeJS.ErrnoException): boolean {
  return WANTS.includes(code);
}

function reasonFor(error: NodeJS.ErrnoException): string {
  return error.code === 'ECONNREFUSED' ? 'nobody listens there' : (error.code ?? error.message);
}
