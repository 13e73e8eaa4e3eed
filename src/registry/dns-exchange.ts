/** Questions to a name server that is a registry: over UDP, over TCP when that is cut, and whole zones. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import type { ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import { rcodeName } from '../dns/rcode-names.js';
import { type Message, type ReadRecord, readMessage } from '../dns/read-message.js';
import { typeName } from '../dns/type-names.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import { signMessage, TsigAnswers, type TsigKey, wallSeconds } from './dns-tsig.js';
import { requestFailure } from './http-failure.js';

/** From one datagram to the same again (RFC 9520 s.3.1: a few tries). */
const RESEND_MS: Ms = 1_000;
const QUESTION_MS: Ms = 3_000;
/** Of a zone that is transferred. */
const KEPT = new Set<ReadRecord['type']>([TYPE.SRV, TYPE.A, TYPE.AAAA, TYPE.NS]);
/** An endpoint has a name for its service, and one for its port. */
const SRV_AN_ENDPOINT = 4;

export interface Asking {
  readonly server: ListenAddress;
  readonly name: string;
  readonly type: number;
  /** Signs the question; what is not signed with it then is no answer. */
  readonly key?: TsigKey | undefined;
  readonly signal: AbortSignal;
}

/** The reply to a question, NXDOMAIN included. Other response codes are failures. Never rejects. */
export async function askServer(asking: Asking): Promise<Message | Failure> {
  const over = await once(asking, overUdp);
  const reply = 'reason' in over || !over.truncated ? over : await once(asking, overTcp);
  if ('reason' in reply) return reply;
  if (reply.truncated) return { kind: 'unbelievable', reason: 'truncated over TCP' };
  return reply.rcode === RCODE.NOERROR || reply.rcode === RCODE.NXDOMAIN ? reply : rcodeFailure(reply.rcode);
}

export interface Transfer {
  readonly serial: number;
  readonly records: readonly ReadRecord[];
}

/**
 * A whole zone (RFC 5936), as far as it tells of services. Never rejects.
 * @param maxSrv endpoints that there may be
 */
export function transferZone(
  { server, name, key, signal }: Omit<Asking, 'type'>,
  { maxBytes, maxSrv, deadline }: { readonly maxBytes: number; readonly maxSrv: number; readonly deadline: Ms },
): Promise<Transfer | Failure> {
  const asking = { server, name, type: TYPE.AXFR, key, signal };
  const query = queryOf(asking);
  const id = idOf(query.bytes);
  const answers = query.answers?.();
  const zone = name.toLowerCase();
  const records: ReadRecord[] = [];
  let srv = 0;
  let serial: number | undefined;
  return stream<Transfer>(
    asking,
    query,
    { maxBytes, deadline, closed: 'closed in the middle of the transfer' },
    (message, bytes) => {
      if (message.id !== id || !message.isReply) return strange('a reply to another question');
      const doubt = answers?.take(bytes, message);
      if (doubt !== undefined) return doubt;
      if (message.rcode !== RCODE.NOERROR) return rcodeFailure(message.rcode);
      if (message.question !== undefined && !isQuestion(message, asking)) return strange('a reply to another question');
      if (message.truncated) return strange('a truncated transfer');
      for (const record of message.answers) {
        const isSoa = record.type === TYPE.SOA && record.name === zone;
        if (serial === undefined) {
          if (!isSoa) return strange('the transfer does not begin with the SOA of the zone');
          serial = record.serial;
        } else if (isSoa) {
          if (record.serial !== serial) return strange('the zone changed during the transfer');
          return answers?.whole === false ? strange('the end of the transfer is not signed') : { serial, records };
        } else if (KEPT.has(record.type)) {
          if (record.type === TYPE.SRV && ++srv > SRV_AN_ENDPOINT * maxSrv) {
            return strange(`${srv} SRV records or more, for limits.maxEndpoints (${maxSrv})`);
          }
          records.push(record);
        }
      }
      return serial === undefined ? strange('an empty transfer') : undefined;
    },
  );
}

function strange(reason: string): Failure {
  return { kind: 'unbelievable', reason };
}

/** It answers, and says nothing. */
function rcodeFailure(rcode: number): Failure {
  return { kind: 'unbelievable', reason: rcodeName(rcode) };
}

/** Of two serials the later (RFC 1982 s.3.2). */
export function isLaterSerial(serial: number, than: number): boolean {
  const ahead = (serial - than) >>> 0;
  return ahead !== 0 && ahead < 0x8000_0000;
}

interface Query {
  readonly bytes: Uint8Array;
  /** Of a signed one: what checks its answers, anew for each that may be the one. */
  readonly answers?: () => TsigAnswers;
}

type Way = (asking: Asking, query: Query) => Promise<Message | Failure>;

async function once(asking: Asking, way: Way): Promise<Message | Failure> {
  if (asking.signal.aborted) return { kind: 'unreachable', reason: 'no answer in time' };
  return await way(asking, queryOf(asking));
}

function queryOf({ name, type, key }: Pick<Asking, 'name' | 'type' | 'key'>): Query {
  const edns = type === TYPE.AXFR ? {} : { edns: { payload: 1232 } };
  const plain = encodeQuery({ id: randomInt(65_536), name, type, recursionDesired: type !== TYPE.AXFR, ...edns })!;
  if (key === undefined) return { bytes: plain };
  const { bytes, mac } = signMessage(plain, { key, seconds: wallSeconds() });
  return { bytes, answers: () => new TsigAnswers(key, mac, wallSeconds) };
}

function idOf(query: Uint8Array): number {
  return (query[0]! << 8) | query[1]!;
}

function isQuestion({ question }: Message, { name, type }: Pick<Asking, 'name' | 'type'>): boolean {
  return question?.type === type && question.name === name.toLowerCase();
}

/** The message, when it is a reply to the very question; why it cannot be believed, when it should be signed. */
function replyTo(bytes: Uint8Array, query: Query, asking: Asking): Message | Failure | undefined {
  const message = readMessage(bytes);
  if (message === undefined || message.id !== idOf(query.bytes) || !message.isReply || message.opcode !== 0)
    return undefined;
  // A server that could not read the question may leave it out of its error.
  const fits = message.question === undefined ? message.rcode !== RCODE.NOERROR : isQuestion(message, asking);
  return fits ? (query.answers?.().take(bytes, message) ?? message) : undefined;
}

/** From a socket of its own, so from a random port beside the random id (RFC 5452). What is no reply is passed over. */
function overUdp(asking: Asking, query: Query): Promise<Message | Failure> {
  const { server, signal } = asking;
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4');
    let strangers = 0;
    let doubt: Failure | undefined;
    let open = true;
    const end = (result: Message | Failure): void => {
      if (!open) return;
      open = false;
      clearTimeout(deadline);
      clearInterval(again);
      signal.removeEventListener('abort', late);
      socket.close();
      resolve(result);
    };
    const late = (): void => {
      if (doubt !== undefined) {
        end(doubt);
        return;
      }
      const also = strangers > 0 ? `, but ${strangers} that were none` : '';
      end({ kind: 'unreachable', reason: `no answer to ${typeName(asking.type)}${also}` });
    };
    const failed = (error: Error): void => end(requestFailure(error));
    const send = (): void => socket.send(query.bytes, (error) => error && failed(error));
    const deadline = setTimeout(late, QUESTION_MS);
    const again = setInterval(() => open && send(), RESEND_MS);
    signal.addEventListener('abort', late);
    socket.on('error', failed);
    socket.on('message', (bytes) => {
      const message = replyTo(bytes, query, asking);
      if (message === undefined) strangers++;
      // Anybody could have sent it: another may come that is signed (RFC 8945 s.5.3.2).
      else if ('reason' in message) doubt = message;
      else end(message);
    });
    socket.on('connect', () => open && send());
    socket.connect(server.port, server.address);
  });
}

function overTcp(asking: Asking, query: Query): Promise<Message | Failure> {
  const bounds = { maxBytes: 65_537, deadline: QUESTION_MS, closed: 'closed without an answer' };
  return stream<Message>(asking, query, bounds, (_message, bytes) => {
    return replyTo(bytes, query, asking) ?? strange('a reply to another question');
  });
}

interface Bounds {
  readonly maxBytes: number;
  readonly deadline: Ms;
  /** What it means when the server closes before it was over. */
  readonly closed: string;
}

/** Messages over TCP, until `take` has what it wants or the time is over. */
function stream<T extends object>(
  { server, signal }: Asking,
  { bytes: query }: Query,
  { maxBytes, deadline, closed }: Bounds,
  take: (message: Message, bytes: Uint8Array) => T | Failure | undefined,
): Promise<T | Failure> {
  return new Promise((resolve) => {
    const socket = connect({ host: server.address, port: server.port });
    let open = true;
    let pending = Buffer.alloc(0);
    let total = 0;
    const end = (result: T | Failure): void => {
      if (!open) return;
      open = false;
      clearTimeout(timer);
      signal.removeEventListener('abort', late);
      socket.destroy();
      resolve(result);
    };
    const late = (): void => {
      const reason = total === 0 ? 'no answer over TCP' : 'no whole answer in time';
      end({ kind: 'unreachable', reason });
    };
    const timer = setTimeout(late, deadline);
    signal.addEventListener('abort', late);
    socket.on('error', (error) => end(requestFailure(error)));
    socket.on('close', () => end({ kind: 'unreachable', reason: closed }));
    socket.on('connect', () => {
      const framed = Buffer.alloc(2 + query.length);
      framed.writeUInt16BE(query.length, 0);
      framed.set(query, 2);
      socket.write(framed);
    });
    socket.on('data', (chunk) => {
      total += chunk.length;
      if (total > maxBytes) {
        end(strange(`more than limits.maxBody (${maxBytes} bytes)`));
        return;
      }
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      while (open && pending.length >= 2) {
        const need = 2 + pending.readUInt16BE(0);
        if (pending.length < need) return;
        const bytes = pending.subarray(2, need);
        pending = pending.subarray(need);
        const message = readMessage(bytes);
        const result = message === undefined ? strange('the answer is not DNS') : take(message, bytes);
        if (result !== undefined) end(result);
      }
    });
  });
}
