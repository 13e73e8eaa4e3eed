/** One question over UDP, and as much of the reply as a benchmark looks at. */
import { createSocket } from 'node:dgram';

const TYPES = { A: 1, SRV: 33 };
const RETRY_MS = 20;

/**
 * Asks again and again until there is a reply. Rejects after `timeout` ms. `accept` may refuse a reply and wait on.
 * `retry` is the time in ms between tries.
 */
export async function ask(
  port,
  name,
  type,
  { timeout = 2000, retry = RETRY_MS, accept = () => true, edns = false } = {},
) {
  const socket = createSocket('udp4');
  const query = encode(name, type, edns);
  try {
    return await new Promise((resolve, reject) => {
      const send = () => socket.send(query, port, '127.0.0.1', () => undefined);
      const timer = setInterval(send, retry);
      const late = setTimeout(() => {
        clearInterval(timer);
        reject(new Error(`no reply to ${name} ${type} from port ${port} within ${timeout} ms`));
      }, timeout);
      socket.on('error', () => undefined);
      socket.on('message', (bytes) => {
        const reply = decode(bytes);
        if (!accept(reply)) return;
        clearInterval(timer);
        clearTimeout(late);
        resolve(reply);
      });
      send();
    });
  } finally {
    socket.close();
  }
}

/** A query, with the id 0x1234. */
export function encode(name, type, edns = false) {
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)]));
  const opt = edns ? Buffer.from('0000291000000000000000', 'hex') : Buffer.alloc(0);
  const header = Buffer.from(edns ? '123401000001000000000001' : '123401000001000000000000', 'hex');
  return Buffer.concat([header, ...labels, Buffer.of(0, 0, TYPES[type], 0, 1), opt]);
}

/** Counts of the sections (OPT included), the size, and the addresses of all A records, weights and ports of all SRV records. */
export function decode(bytes) {
  const reply = {
    rcode: bytes[3] & 15,
    answers: bytes.readUInt16BE(6),
    authorities: bytes.readUInt16BE(8),
    additionals: bytes.readUInt16BE(10),
    size: bytes.length,
    addresses: [],
    ports: [],
    weights: [],
  };
  let at = 12;
  const skipName = () => {
    while (bytes[at] !== 0 && (bytes[at] & 0xc0) !== 0xc0) at += bytes[at] + 1;
    at += bytes[at] === 0 ? 1 : 2;
  };
  for (let i = bytes.readUInt16BE(4); i > 0; i--) {
    skipName();
    at += 4;
  }
  for (let i = reply.answers + reply.authorities + reply.additionals; i > 0 && at < bytes.length; i--) {
    skipName();
    const type = bytes.readUInt16BE(at);
    const length = bytes.readUInt16BE(at + 8);
    at += 10;
    if (type === TYPES.A) reply.addresses.push([...bytes.subarray(at, at + 4)].join('.'));
    if (type === TYPES.SRV) {
      reply.weights.push(bytes.readUInt16BE(at + 2));
      reply.ports.push(bytes.readUInt16BE(at + 4));
    }
    at += length;
  }
  return reply;
}
