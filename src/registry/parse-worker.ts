/** The thread of `parse-elsewhere.ts`: parses one body, sends what it says, ends. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Packed } from './packed-listings.js';
import { type PackedResult, parsePacked } from './parse.js';
import type { Work } from './parse-elsewhere.js';
import { type PackedTargets, packedTargets } from './parse-targets.js';

function send(result: PackedResult | PackedTargets | string, services: Packed | undefined): void {
  parentPort?.postMessage(result, (services?.parts ?? []).map(({ buffer }) => buffer) as ArrayBuffer[]);
}

const work = workerData as Work;
if (work.kind === 'file') {
  const result = await parsePacked(work.job);
  send(result, result.ok ? result.contents.services : undefined);
} else {
  const result = packedTargets(work.job);
  send(result, typeof result === 'string' ? undefined : result.services);
}
