/** The thread of `parse.ts`: parses one file, sends what it says, ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { type ParseJob, parsePacked } from './parse.js';

const result = await parsePacked(workerData as ParseJob);
const parts = result.ok ? result.contents.services.parts : [];
parentPort?.postMessage(result, parts.map(({ buffer }) => buffer) as ArrayBuffer[]);
