/** A thread that parses one body and ends: no other registry waits for it, nor suffers from the memory that it takes. */
import { Worker } from 'node:worker_threads';
import type { Ms } from '../system/clock.js';
import type { ParseJob } from './parse.js';
import type { TargetsJob } from './parse-targets.js';

const PARSE_DEADLINE_MS: Ms = 120_000;
/** YAML needs some 10 kB an endpoint while it is parsed. */
const PARSE_HEAP_MB = 3072;

export type Work =
  | { readonly kind: 'file'; readonly job: ParseJob }
  | { readonly kind: 'targets'; readonly job: TargetsJob };

/**
 * What `parse-worker.ts` makes of it. The bytes are handed on: the caller has them no more.
 * @param fail makes a result of the reason why there is none
 */
export function parseElsewhere<T>(work: Work, fail: (reason: string) => T): Promise<T> {
  const { bytes } = work.job;
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./parse-worker.js', import.meta.url), {
      workerData: work,
      // Of a part of something larger only a copy can go.
      transferList: bytes.length === bytes.buffer.byteLength ? [bytes.buffer as ArrayBuffer] : [],
      resourceLimits: { maxOldGenerationSizeMb: PARSE_HEAP_MB },
    });
    const end = (result: T): void => {
      clearTimeout(timer);
      resolve(result);
      void worker.terminate();
    };
    const late = `not parsed within ${PARSE_DEADLINE_MS / 1000} s`;
    const timer = setTimeout(() => end(fail(late)), PARSE_DEADLINE_MS);
    worker.once('message', end);
    worker.once('error', (error: NodeJS.ErrnoException) => {
      end(fail(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'too large to parse' : `not parsed: ${error.message}`));
    });
    worker.once('exit', () => end(fail('not parsed: the parser stopped')));
  });
}
