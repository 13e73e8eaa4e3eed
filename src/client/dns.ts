/** One DNS question over UDP or TCP, with every check on the reply that makes it ours. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import dns2, { type Packet as ParsedPacket } from 'dns2';
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { encodeQuery } from '../dns/encode-query.js';
import { nameToWire } from '../dns/names.js';

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

/** The server did not give a usable reply; the message says why. */
export class NoReply extends Error {}

const UDP_TRIES = 2;

/** Asks over UDP and again over TCP when the reply is cut, or over TCP at once. Rejects with NoReply. */
export async function askDns(question: Question, options: AskOptions): Promise<Reply> {
  const id = randomInt(0x10000);
  const query = encodeQuery({ id, name: question.name, type: question.type, edns: { payload: 1232 } });
  if (!query) throw new NoReply(`${question.name} is not a domain name`);
  const started = performance.now();
  const overTcp = async (): Promise<Reply> => ({
    ...(await readTcp(query, id, question, options)),
    tookMs: performance.now() - started,
    transport: 'tcp',
  });
  if (options.tcp) return overTcp();
  const reply = await readUdp(query, id, question, options);
  if (reply.packet.header.tc) return overTcp();
  return { ...reply, tookMs: performance.now() - started, transport: 'udp' };
}

type Parsed = Pick<Reply, 'packet' | 'bytes'>;

function readUdp(
  query: Uint8Array,
  id: number,
  question: Question,
  { server, timeoutMs }: AskOptions,
): Promise<Parsed> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4');
    let tries = 1;
    const timer = setInterval(() => {
      if (tries++ >= UDP_TRIES) finish(new NoReply(`no reply within ${timeoutMs} ms`));
      else socket.send(query);
    }, timeoutMs / UDP_TRIES);
    const finish = (result: Parsed | Error) => {
      clearInterval(timer);
      socket.close();
      if (result instanceof Error) reject(result);
      else resolve(result);
    };
    socket.on('error', (error) => finish(new NoReply(reasonFor(error))));
    socket.on('message', (bytes, from) => {
      if (canonicalAddress(from.address) !== server.address || from.port !== server.port) return;
      const packet = parseReply(bytes, id, question);
      // Something else than our reply: forged, or late from an earlier question. Ours may still come.
      if (packet) finish({ packet, bytes: bytes.length });
    });
    socket.connect(server.port, server.address, () => socket.send(query));
  });
}

function readTcp(
  query: Uint8Array,
  id: number,
  question: Question,
  { server, timeoutMs }: AskOptions,
): Promise<Parsed> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: server.address, port: server.port });
    const timer = setTimeout(() => finish(new NoReply(`no reply within ${timeoutMs} ms`)), timeoutMs);
    const chunks: Buffer[] = [];
    let have = 0;
    let need = 2;
    const finish = (result: Parsed | Error) => {
      clearTimeout(timer);
      socket.destroy();
      if (result instanceof Error) reject(result);
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
      const packet = parseReply(all.subarray(2, need), id, question);
      finish(packet ? { packet, bytes: need - 2 } : new NoReply('the reply does not belong to the question'));
    });
    socket.on('error', (error) => finish(new NoReply(reasonFor(error))));
    socket.on('close', () => finish(new NoReply('the server closed the connection without a reply')));
  });
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

function reasonFor(error: NodeJS.ErrnoException): string {
  if (error.code === 'ECONNREFUSED') return 'nobody listens there: is `holdfast serve` running?';
  return error.message;
}
