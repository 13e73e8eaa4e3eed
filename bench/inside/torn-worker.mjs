/** The asking thread of torn.mjs. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { encodeQuery } from '../../src/dns/encode-query.ts';
import { COUNTER_WORDS } from '../../src/server/counters.ts';
import { Responder } from '../../src/server/respond.ts';
import { ZONE } from '../lib/data.mjs';
import { NAMES } from './versions.mjs';

const BATCH = 64;
const A = 1;
const SRV = 33;

const { handle, reader, queries } = workerData;
const limits = { maxUdp: 1232, tcpMax: 65_535, reader, seed: 1 };
const responder = new Responder(handle, new Uint32Array(COUNTER_WORDS), limits);
const questions = Array.from({ length: NAMES * 2 }, (_, n) =>
  encodeQuery({ name: `s${n >> 1}.${ZONE}`, type: n & 1 ? SRV : A }),
);
const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 };
const out = new Uint8Array(65_535);

let torn = 0;
for (let asked = 0; asked < queries; ) {
  const update = receiveMessageOnPort(parentPort)?.message;
  if (update !== undefined) responder.update(update);
  responder.beginBatch();
  for (let i = 0; i < BATCH; i++, asked++) {
    const question = questions[asked % questions.length];
    const length = responder.respond(question, question.length, peer, 0, 'tcp', out);
    if (!isWhole(question, length)) torn++;
  }
  responder.endBatch();
}
parentPort.postMessage({ queries, torn });

/** Every record is complete, and all are of one version. */
function isWhole(question, length) {
  const records = ((out[6] << 8) | out[7]) + ((out[10] << 8) | out[11]);
  if ((out[3] & 15) !== 0 || records === 0) return false;
  let at = question.length;
  let version = -1;
  for (let i = 0; i < records; i++) {
    at = afterName(at);
    const type = (out[at] << 8) | out[at + 1];
    const size = (out[at + 8] << 8) | out[at + 9];
    at += 10;
    if (type !== A && type !== SRV) return false;
    const here = type === A ? out[at + 3] : out[at + 3] - 1;
    if (type === SRV && ((out[at + 2] << 8) | out[at + 3]) !== 1 + ((out[at + 4] << 8) | out[at + 5]) - 8000)
      return false;
    // Weights are 1 to 256, and the low byte of 256 is 0.
    if (version < 0) version = here & 255;
    else if (version !== (here & 255)) return false;
    at += size;
  }
  return at === length;
}

function afterName(at) {
  for (let i = at; i < out.length; i += out[i] + 1) {
    if (out[i] === 0) return i + 1;
    if ((out[i] & 0xc0) === 0xc0) return i + 2;
  }
  return out.length;
}
