/**
 * gRPC health checking (grpc.health.v1.Health/Check), by hand over HTTP/2: a message is a flag, a length and a
 * protobuf, the request's field 1 the service's name, the reply's field 1 its state.
 */
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import type { Socket } from 'node:net';
import type { Target } from '../feed.js';
import { closedTooEarly, failure, type Outcome, PASS, type Probe } from './attempt.js';
import { judgeName } from './certificate.js';
import { classify } from './classify.js';
import { attemptOver } from './connection.js';
import { shakeHands } from './handshake.js';
import { hostOf } from './http.js';

const PATH = '/grpc.health.v1.Health/Check';
const MAX_REPLY_BYTES = 1_024;
const FRAME_BYTES = 5;
/** Field 1, length-delimited; field 1, varint. */
const NAME_TAG = 0x0a;
const STATE_TAG = 0x08;
const STATES = ['unknown', 'SERVING', 'not serving', 'service unknown'];
const SERVING = 1;
const SERVICE_UNKNOWN = 3;
const STATUS_NOT_FOUND = '5';

export const probeGrpc: Probe = (target, signal, tries) =>
  attemptOver(target, signal, tries, (settle) => (raw) => {
    const judge = (error: Error): void => settle(classify(error, target.address));
    const session = openSession(raw, target, settle, judge);
    raw.once('close', () => session.destroy());
    session.on('error', judge);
    const request = session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: PATH,
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'holdfast-probe',
    });
    let status = 0;
    let grpcStatus: string | undefined;
    let reply = Buffer.alloc(0);
    const read = (headers: NodeJS.Dict<string | string[] | number>): void => {
      if (headers['grpc-status'] !== undefined) grpcStatus = String(headers['grpc-status']);
    };
    request.on('error', judge);
    request.on('response', (headers) => {
      status = Number(headers[constants.HTTP2_HEADER_STATUS]);
      read(headers);
    });
    request.on('trailers', read);
    request.on('data', (chunk: Buffer) => {
      reply = Buffer.concat([reply, chunk]);
      if (reply.length > MAX_REPLY_BYTES) settle(failure('bad-status', 'a longer reply than any state'));
    });
    request.on('end', () => settle(judgeReply(status, grpcStatus, reply, target.grpcService)));
    request.end(encodeRequest(target.grpcService ?? ''));
  });

function openSession(
  raw: Socket,
  target: Target,
  settle: (outcome: Outcome) => void,
  judge: (error: Error) => void,
): ClientHttp2Session {
  const { tlsName } = target;
  if (tlsName === undefined) {
    const authority = `http://${hostOf({ ...target, type: 'http' })}`;
    return connectHttp2(authority, { createConnection: () => raw });
  }
  const socket = shakeHands(raw, tlsName, ['h2']);
  socket.on('error', judge);
  socket.once('secureConnect', () => {
    const wrong = judgeName(target, socket.getPeerCertificate());
    if (wrong !== undefined) settle(wrong);
  });
  return connectHttp2(`https://${tlsName}`, { createConnection: () => socket });
}

function encodeRequest(service: string): Buffer {
  const name = Buffer.from(service, 'utf8');
  const message = name.length === 0 ? name : Buffer.concat([Buffer.from([NAME_TAG, ...varint(name.length)]), name]);
  const head = Buffer.alloc(FRAME_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Seven bits a byte, the lowest first; the eighth says that more follow. */
function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

/** A server that does not know the service that is asked for is another one (R19). */
export function judgeReply(
  status: number,
  grpcStatus: string | undefined,
  reply: Uint8Array,
  service: string | undefined,
): Outcome {
  if (status === 0) return closedTooEarly();
  if (status !== 200) return failure('bad-status', `HTTP ${status}`);
  const unknown = (): Outcome => failure('wrong-identity', `no service ${service}`);
  if (grpcStatus === STATUS_NOT_FOUND && service !== undefined) return unknown();
  if (grpcStatus !== '0') return failure('bad-status', `grpc-status ${grpcStatus ?? 'missing'}`);
  const state = reply[FRAME_BYTES] === STATE_TAG ? (reply[FRAME_BYTES + 1] ?? 0) : 0;
  if (state === SERVING) return PASS;
  if (state === SERVICE_UNKNOWN && service !== undefined) return unknown();
  return failure('bad-status', STATES[state] ?? `state ${state}`);
}
