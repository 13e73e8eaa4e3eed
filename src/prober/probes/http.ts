/**
 * HTTP and HTTPS: one request on a fresh connection; the endpoint passes when its final status is wanted and the
 * body comes to its end, or to a limit, in time. Redirects are statuses like others and are never followed (R18).
 */
import { type ClientRequest, request } from 'node:http';
import { connect, isIP, isIPv6 } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Target } from '../feed.js';
import { attempt, closeHard, failure, PASS, type Probe, withoutGoodbye } from './attempt.js';
import { classify } from './classify.js';
import { metItself } from './tcp.js';

const MAX_BODY_BYTES = 64 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
const WANTED: readonly (readonly [number, number])[] = [[200, 299]];

export const probeHttp: Probe = (target, signal) =>
  attempt(target.timeout, signal, (settle) => {
    const judge = (error: Error): void => settle(classify(error, target.address));
    const raw = withoutGoodbye(connect({ host: target.address, port: target.port }));
    raw.on('error', judge);
    raw.once('connect', () => {
      if (metItself(raw)) settle(failure('refused', 'nobody listens'));
    });
    let query: ClientRequest;
    try {
      const socket = target.type === 'https' ? withoutGoodbye(connectTls({ socket: raw, ...tlsOptions(target) })) : raw;
      socket.on('error', judge);
      query = request({
        createConnection: () => socket,
        method: target.method ?? 'GET',
        path: target.path ?? '/',
        headers: headersOf(target),
        setHost: false,
        maxHeaderSize: MAX_HEADER_BYTES,
      });
    } catch (error) {
      closeHard(raw);
      throw error;
    }
    query.on('error', judge);
    query.on('response', (response) => {
      response.on('error', judge);
      const status = response.statusCode ?? 0;
      if (!(target.status ?? WANTED).some(([low, high]) => status >= low && status <= high)) {
        settle(failure('bad-status', `HTTP ${status}`));
        return;
      }
      let left = MAX_BODY_BYTES;
      response.on('data', (chunk: Buffer) => {
        left -= chunk.length;
        if (left <= 0) settle(PASS);
      });
      response.on('end', () => settle(PASS));
    });
    query.end();
    return () => closeHard(raw);
  });

/** A certificate is not judged here: it is made for a name, the probe asks an address. Identity is another check (R19). */
function tlsOptions(target: Target): { rejectUnauthorized: boolean; servername: string; ALPNProtocols: string[] } {
  const name = target.host?.replace(/:\d+$/, '') ?? '';
  return {
    rejectUnauthorized: false,
    servername: isIP(name.replace(/^\[|\]$/g, '')) === 0 ? name : '',
    ALPNProtocols: ['http/1.1'],
  };
}

function headersOf(target: Target): Record<string, string> {
  const headers: Record<string, string> = { 'User-Agent': 'holdfast-probe', Accept: '*/*' };
  let host = target.host;
  for (const [name, value] of Object.entries(target.headers ?? {})) {
    if (name.toLowerCase() === 'host') host ??= value;
    else headers[name] = value;
  }
  return { Host: host ?? hostOf(target), ...headers, Connection: 'close' };
}

/** The row's own address, in brackets if it is IPv6, with its port unless it is the scheme's. */
export function hostOf(target: Pick<Target, 'type' | 'address' | 'port'>): string {
  const name = isIPv6(target.address) ? `[${target.address}]` : target.address;
  return target.port === (target.type === 'https' ? 443 : 80) ? name : `${name}:${target.port}`;
}
