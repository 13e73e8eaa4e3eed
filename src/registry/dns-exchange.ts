/** Questions to a name server that is a registry: over UDP, and over TCP when that is cut. */
import { randomInt } from 'node:crypto';
import { RCODE, TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import { rcodeName } from '../dns/rcode-names.js';
import { type Message, readMessage } from '../dns/read-message.js';
import { typeName } from '../dns/type-names.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import { type Calling, overTcp, overUdp } from './dns-sockets.js';
import { signMessage, TsigAnswers, type TsigKey, wallSeconds } from './dns-tsig.js';

/** Of an answer over TCP. */
const ANSWER_MS: Ms = 3_000;
const EDNS_REFUSALS: readonly number[] = [RCODE.FORMERR, RCODE.NOTIMP, RCODE.BADVERS];

export interface Asking extends Calling {
  readonly name: string;
  readonly type: number;
  /** Signs the question; what is not signed with it then is no answer. */
  readonly key?: TsigKey | undefined;
  readonly withoutEdns?: true;
}

/** The reply to a question, NXDOMAIN included. Other response codes are failures. Never rejects. */
export async function askServer(asking: Asking): Promise<Message | Failure> {
  const first = await replyOf(asking);
  // A server that knows nothing of EDNS, or of ours, may refuse the question for it (RFC 6891 s.7).
  const odd = !('reason' in first) && EDNS_REFUSALS.includes(first.rcode);
  const last = odd ? await replyOf({ ...asking, withoutEdns: true }) : first;
  if ('reason' in last || last.rcode === RCODE.NOERROR || last.rcode === RCODE.NXDOMAIN) return last;
  return rcodeFailure(last.rcode);
}

/** With whatever response code. */
async function replyOf(asking: Asking): Promise<Message | Failure> {
  const over = await questionOverUdp(asking);
  const reply = 'reason' in over || !over.truncated ? over : await questionOverTcp(asking);
  if ('reason' in reply) return reply;
  return reply.truncated ? { kind: 'unbelievable', reason: 'truncated over TCP' } : reply;
}

export function strange(reason: string): Failure {
  return { kind: 'unbelievable', reason };
}

/** It answers, and says nothing. */
export function rcodeFailure(rcode: number): Failure {
  return { kind: 'unbelievable', reason: rcodeName(rcode) };
}

/** Of two serials the later (RFC 1982 s.3.2). */
export function isLaterSerial(serial: number, than: number): boolean {
  const ahead = (serial - than) >>> 0;
  return ahead !== 0 && ahead < 0x8000_0000;
}

export interface Query {
  readonly bytes: Uint8Array;
  /** Of a signed one: what checks its answers, anew for each that may be the one. */
  readonly answers?: () => TsigAnswers;
}

function questionOverUdp(asking: Asking): Promise<Message | Failure> {
  const query = queryOf(asking);
  return overUdp(asking, query.bytes, (bytes) => replyTo(bytes, query, asking), typeName(asking.type));
}

function questionOverTcp(asking: Asking): Promise<Message | Failure> {
  const query = queryOf(asking);
  const bounds = { maxBytes: 65_537, deadline: ANSWER_MS, closed: 'closed without an answer' };
  return overTcp<Message>(asking, query.bytes, bounds, (_message, bytes) => {
    return replyTo(bytes, query, asking) ?? strange('a reply to another question');
  });
}

export function queryOf({ name, type, key, withoutEdns }: Omit<Asking, keyof Calling>): Query {
  const edns = type === TYPE.AXFR || withoutEdns ? {} : { edns: { payload: 1232 } };
  const plain = encodeQuery({ id: randomInt(65_536), name, type, recursionDesired: type !== TYPE.AXFR, ...edns })!;
  if (key === undefined) return { bytes: plain };
  const { bytes, mac } = signMessage(plain, { key, seconds: wallSeconds() });
  return { bytes, answers: () => new TsigAnswers(key, mac, wallSeconds) };
}

export function idOf(query: Uint8Array): number {
  return (query[0]! << 8) | query[1]!;
}

export function isQuestion({ question }: Message, { name, type }: Pick<Asking, 'name' | 'type'>): boolean {
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
