/**
 * Asks for one name over and over while another thread changes it. Every address of one reply ends with the same
 * octet, so a reply that mixes two versions shows.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { SharedTable } from '../src/answers/shared.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { COUNTER_WORDS } from '../src/server/counters.js';
import { Responder } from '../src/server/respond.js';

export interface ChurnTask {
  readonly handle: SharedTable;
  readonly reader: number;
  readonly name: string;
}

export interface ChurnResult {
  readonly queries: number;
  readonly torn: number;
}

const { handle, reader, name } = workerData as ChurnTask;
const counters = new Uint32Array(COUNTER_WORDS);
const responder = new Responder(handle, counters, { maxUdp: 1232, tcpMax: 65_535, reader, seed: 1 });
const query = encodeQuery({ name, type: 1 })!;
const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
const out = new Uint8Array(65_535);

function isWhole(length: number): boolean {
  const answers = (out[6]! << 8) | out[7]!;
  if ((out[3]! & 15) !== 0 || answers === 0 || length !== query.length + answers * 16) return false;
  for (let i = 0; i < answers; i++) {
    const at = query.length + i * 16;
    if (out[at] !== 0xc0 || out[at + 1] !== 12 || out[at + 15] !== out[query.length + 15]) return false;
  }
  return true;
}

let queries = 0;
let torn = 0;
parentPort!.postMessage('ready');
for (;;) {
  const message = receiveMessageOnPort(parentPort!)?.message as SharedTable | 'stop' | undefined;
  if (message === 'stop') break;
  if (message !== undefined) responder.update(message);
  responder.beginBatch();
  for (let i = 0; i < 32; i++) {
    queries++;
    if (!isWhole(responder.respond(query, query.length, peer, 0, 'tcp', out))) torn++;
  }
  responder.endBatch();
}
parentPort!.postMessage({ queries, torn } satisfies ChurnResult);
