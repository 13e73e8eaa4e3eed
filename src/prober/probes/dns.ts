/** DNS: a question over UDP or TCP; the endpoint passes when it answers without an error. */
import { randomInt } from 'node:crypto';
import { RCODE, TYPE } from '../../dns/constants.js';
import { encodeQuery } from '../../dns/encode-query.js';
import type { Target } from '../feed.js';
import { closedTooEarly, failure, local, type Outcome, PASS, type Probe, type Tries } from './attempt.js';
import { attemptOver } from './connection.js';
import { exchange } from './udp.js';

const HEADER_BYTES = 12;
const LENGTH_BYTES = 2;
const RCODES = new Map(Object.entries(RCODE).map(([name, code]) => [code as number, name]));

export const probeDns: Probe = async (target, signal, tries) => {
  const id = randomInt(0x10000);
  const query = encodeQuery({ id, name: target.query ?? '.', type: target.queryType ?? TYPE.SOA });
  if (query === undefined) return local(`${target.query} is no domain name`);
  const judge = (reply: Buffer): Outcome | undefined => judgeReply(reply, id);
  return target.protocol === 'udp'
    ? exchange(target, signal, tries, query, judge)
    : exchangeTcp(
        target,
        signal,
        tries,
        query,
        (reply) => judge(reply) ?? failure('bad-status', 'no reply to the question'),
      );
};

/** Undefined when it is no reply to the question. */
function judgeReply(reply: Buffer, id: number): Outcome | undefined {
  if (reply.length < HEADER_BYTES || reply.readUInt16BE(0) !== id || (reply[2]! & 0x80) === 0) return undefined;
  const rcode = reply[3]! & 15;
  return rcode === RCODE.NOERROR ? PASS : failure('bad-status', RCODES.get(rcode) ?? `RCODE ${rcode}`);
}

/** RFC 1035 s.4.2.2: a length goes before each message. */
function exchangeTcp(
  target: Target,
  signal: AbortSignal,
  tries: Tries | undefined,
  query: Uint8Array,
  judge: (reply: Buffer) => Outcome,
): Promise<Outcome> {
  return attemptOver(target, signal, tries, (settle) => (socket) => {
    const chunks: Buffer[] = [];
    let left = LENGTH_BYTES;
    let length: number | undefined;
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      left -= chunk.length;
      if (left > 0) return;
      const received = Buffer.concat(chunks);
      if (length === undefined) {
        length = received.readUInt16BE(0);
        left += length;
      }
      if (left <= 0) settle(judge(received.subarray(LENGTH_BYTES)));
    });
    socket.on('end', () => settle(closedTooEarly()));
    socket.write(Buffer.concat([Buffer.from([query.length >> 8, query.length & 0xff]), query]));
  });
}
