/** One DNS question over UDP or TCP, with every check on the reply that makes it ours. */
import { randomInt } from 'node:crypto';
import dns2, { type Packet as ParsedPacket } from 'dns2';
import type { ListenAddress } from '../config/types.js';
import { encodeQuery } from '../dns/encode-query.js';
import { nameToWire } from '../dns/names.js';
import { exchangeTcp, exchangeUdp, NoReply } from './exchange.js';

const { Packet } = dns2;

export interface Question {
  readonly name: string;
  readonly type: number;
}

export interface AskOptions {
  readonly server: ListenAddress;
  readonly tcp: boolean;
  readonly timeoutMs: number;
}

export interface Reply {
  readonly packet: ParsedPacket;
  readonly bytes: number;
  readonly tookMs: number;
  readonly transport: 'udp' | 'tcp';
}

export { NoReply };

/** Asks over UDP and again over TCP when the reply is cut, or over TCP at once. Rejects with NoReply. */
export async function askDns(question: Question, options: AskOptions): Promise<Reply> {
  const id = randomInt(0x10000);
  const query = encodeQuery({ id, name: question.name, type: question.type, edns: { payload: 1232 } });
  if (!query) throw new NoReply(`${question.name} is not a domain name`);
  const started = performance.now();
  const { server, timeoutMs } = options;
  const accept = (bytes: Buffer) => {
    const packet = parseReply(bytes, id, question);
    return packet && { packet, bytes: bytes.length };
  };
  const overTcp = async (): Promise<Reply> => ({
    ...(await exchangeTcp(query, { server, timeoutMs, accept })),
    tookMs: performance.now() - started,
    transport: 'tcp',
  });
  if (options.tcp) return overTcp();
  const reply = await exchangeUdp(query, { server, timeoutMs, accept });
  if (reply.packet.header.tc) return overTcp();
  return { ...reply, tookMs: performance.now() - started, transport: 'udp' };
}

/** Undefined unless it is a reply to this very question; records that cannot be read count as none of it. */
function parseReply(bytes: Buffer, id: number, question: Question): ParsedPacket | undefined {
  try {
    const packet = Packet.parse(bytes);
    const { header, errors } = packet;
    if (header.id !== id || !header.qr || errors.length > 0) return undefined;
    const asked = packet.questions[0];
    // Servers that could not read the question may leave it out of an error.
    if (!asked) return header.rcode === 0 ? undefined : packet;
    return asked.type === question.type && sameName(asked.name, question.name) ? packet : undefined;
  } catch {
    return undefined;
  }
}

function sameName(a: string, b: string): boolean {
  const fold = (name: string) => Buffer.from(nameToWire(name.toLowerCase()) ?? []).toString('hex');
  return fold(a) === fold(b);
}
