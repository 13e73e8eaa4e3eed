/** The thread of `parse.ts`: parses one file, sends what it says, ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { type ParseJob, parseHere } from './parse.js';

parentPort?.postMessage(await parseHere(workerData as ParseJob));
