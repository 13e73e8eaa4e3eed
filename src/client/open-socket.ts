/** One connection to one endpoint: TCP, and TLS over it. */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Ms } from '../system/clock.js';
import { deadline } from './deadline.js';
import type { TlsOptions } from './options.js';

export interface Tls {
  readonly options: TlsOptions;
  /** That the certificate must have, unless the options say another. */
  readonly servername: string;
}

export interface OpenOptions {
  readonly address: string;
  readonly port: number;
  /** Present: TLS. */
  readonly tls?: Tls | undefined;
  readonly sessions?: TlsSessions | undefined;
  readonly timeout: Ms;
  readonly signal?: AbortSignal | undefined;
}

/** TLS sessions, so that a connection anew is cheap. Only for connections of the same settings: they prove who answers. */
export type TlsSessions = Map<string, Buffer>;
const MAX_SESSIONS = 1_000;

/** Rejects with the system's or TLS's error, `ETIMEDOUT` after `timeout`, or the signal's reason. */
export function openSocket(options: OpenOptions): Promise<Socket> {
  const { address, port, tls, timeout, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = tls === undefined ? connectTcp({ host: address, port }) : openTls(options, tls);
    const inTime = deadline(timeout, () => settle(timedOut(timeout)));
    const aborted = (): void => settle(signal!.reason);
    const settle = (error?: unknown): void => {
      inTime();
      signal?.removeEventListener('abort', aborted);
      socket.off('error', settle).off('close', closed);
      if (error === undefined) {
        resolve(socket);
        return;
      }
      // What comes after the first error belongs to nobody.
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const closed = (): void =>
      settle(Object.assign(new Error('closed before it was connected'), { code: 'ECONNRESET' }));
    signal?.addEventListener('abort', aborted, { once: true });
    socket.on('error', settle).on('close', closed);
    socket.setNoDelay(true).setKeepAlive(true, 60_000);
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => settle());
  });
}

function openTls({ address, port, sessions }: OpenOptions, { options, servername }: Tls): TLSSocket {
  const name = options.servername ?? servername;
  const key = `${address} ${port} ${name}`;
  const session = sessions?.get(key);
  const socket = connectTls({
    ALPNProtocols: ['http/1.1'],
    ...options,
    ...(session && { session }),
    servername: name,
    host: address,
    port,
  });
  if (sessions === undefined) return socket;
  socket.on('session', (fresh) => {
    sessions.delete(key);
    sessions.set(key, fresh);
    if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value!);
  });
  return socket;
}

function timedOut(timeout: Ms): Error {
  return Object.assign(new Error(`no connection within ${timeout} ms`), { code: 'ETIMEDOUT' });
}

/** For connections to `name`, as it was resolved: labels such as `_http._tcp` are no part of a certificate's. */
export function tlsFor(name: string, options: TlsOptions): Tls {
  return { options, servername: name.replace(/^(?:_[^.]*\.)+/, '') };
}
