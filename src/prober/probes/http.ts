/**
 * HTTP and HTTPS: one request on a fresh connection; the endpoint passes when its final status is wanted and the
 * body comes to its end, or to a limit, in time. Redirects are statuses like others and are never followed (R18).
 */
import { type IncomingMessage, request } from 'node:http';
import { isIPv6, type Socket } from 'node:net';
import type { Target } from '../feed.js';
import { DRAINING, endedByPeer, failure, type Outcome, PASS, type Probe } from './attempt.js';
import { judgeName } from './certificate.js';
import { classify } from './classify.js';
import { attemptOver } from './connection.js';
import { shakeHands } from './handshake.js';

const MAX_BODY_BYTES = 64 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
/** Of a body: one that comes byte by byte costs as much as thousands. */
const MAX_PIECES = 8_192;
/** Before the response, of the kind 1xx. */
const MAX_HINTS = 16;
const DRAINING_STATUS = 503;
/** RFC 9110 s.15.5.9: it has waited for the request. */
const REQUEST_TIMEOUT = 408;
/** RFC 9110 s.6.4.1: no body follows. */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);
const WANTED: readonly (readonly [number, number])[] = [[200, 299]];

export const probeHttp: Probe = (target, signal, tries) =>
  attemptOver(target, signal, tries, (settle) => {
    const judge = (error: Error): void => settle(classify(error, target.address));
    let connect: ((error: null, socket: Socket) => void) | undefined;
    const query = request({
      // Asked at once: the connection comes when there is one.
      createConnection: (_, connected) => {
        connect = connected;
        return undefined;
      },
      method: target.method ?? 'GET',
      path: target.path ?? '/',
      headers: headersOf(target),
      setHost: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Lines that end without CR, headers that go on in the next line: what other clients take is no fault.
      insecureHTTPParser: true,
    });
    let answer: IncomingMessage | undefined;
    // What comes behind a whole answer is no part of it, in the same packet or not.
    query.on('error', (error) => {
      if (answer?.complete !== true) judge(error);
    });
    let hints = 0;
    query.on('information', () => {
      if (++hints > MAX_HINTS) settle(failure('bad-status', 'hints without an end'));
    });
    query.on('response', (response) => {
      answer = response;
      response.on('error', judge);
      const outcome = judgeHead(target, response);
      if (outcome !== undefined) {
        settle(outcome);
        return;
      }
      let left = MAX_BODY_BYTES;
      const chunks: Buffer[] = [];
      const end = (): void => settle(judgeBody(target, response, Buffer.concat(chunks)));
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        left -= chunk.length;
        if (left <= 0 || chunks.length === MAX_PIECES) end();
      });
      response.on('end', end);
      // A server may send one where none belongs; what it has said is enough.
      if (target.method === 'HEAD' || BODILESS.has(response.statusCode ?? 0)) end();
    });
    query.on('upgrade', (response) =>
      settle(judgeHead(target, response) ?? judgeBody(target, response, Buffer.alloc(0))),
    );
    query.end();
    return (raw) => connect?.(null, target.type === 'https' ? secure(raw, target, settle) : raw);
  });

function secure(raw: Socket, target: Target, settle: (outcome: Outcome) => void): Socket {
  const name = target.tlsName ?? target.host?.replace(/:\d+$/, '');
  const secured = shakeHands(raw, name, ['http/1.1']);
  secured.once('secureConnect', () => {
    const wrong = judgeName(target, secured.getPeerCertificate());
    if (wrong !== undefined) settle(wrong);
  });
  secured.on('error', (error) => settle(classify(error, target.address)));
  return secured;
}

/** What status and headers decide; undefined when the body has the last word. */
function judgeHead(target: Target, response: IncomingMessage): Outcome | undefined {
  const { statusCode: status = 0, headersDistinct } = response;
  const other = judgeIdentity(target, headersDistinct);
  if (other !== undefined) return other;
  if (saysItDrains(target, response)) return target.identityBody === undefined ? DRAINING : undefined;
  const wanted = (target.status ?? WANTED).some(([low, high]) => status >= low && status <= high);
  if (wanted) return undefined;
  const fail = status === REQUEST_TIMEOUT ? endedByPeer : failure;
  return fail('bad-status', `HTTP ${status}`);
}

/** R19: whoever does not say the right name is another one, whatever the status. */
function judgeIdentity({ identityHeader }: Target, headers: NodeJS.Dict<string[]>): Outcome | undefined {
  if (identityHeader === undefined) return undefined;
  const [name, value] = identityHeader;
  const said = headers[name.toLowerCase()];
  if (said?.includes(value)) return undefined;
  return failure('wrong-identity', said === undefined ? `no header ${name}` : `${name}: ${said.join(', ')}`);
}

function saysItDrains({ drainHeader }: Target, { statusCode, headersDistinct }: IncomingMessage): boolean {
  return statusCode === DRAINING_STATUS && drainHeader !== undefined && drainHeader.toLowerCase() in headersDistinct;
}

function judgeBody(target: Target, response: IncomingMessage, received: Buffer): Outcome {
  const { body, identityBody } = target;
  const isAnother = identityBody !== undefined && !received.includes(identityBody);
  // R19: another one's word that it drains is none.
  if (saysItDrains(target, response)) return isAnother ? failure('bad-status', `HTTP ${DRAINING_STATUS}`) : DRAINING;
  if (isAnother) return failure('wrong-identity', 'the body does not say who it should be');
  if (body !== undefined && !received.includes(body))
    return failure('bad-status', 'the body has not the text that is expected');
  return PASS;
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
