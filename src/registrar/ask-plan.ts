/** Has a plan made by another process, so that its memory is given back. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Ms } from '../system/clock.js';
import type { Plan, PlanRequest } from './plan.js';

const DEADLINE_MS: Ms = 30_000;
const MAX_SAID = 2_000;

/** Rejects when the process cannot be run or does not answer: a fault of this host, and never of a file. */
export function askPlan(request: PlanRequest): Promise<Plan> {
  return new Promise((resolve, reject) => {
    const program = fileURLToPath(new URL('./plan-process.js', import.meta.url));
    // The folder of this process may be gone, which Node does not bear while it starts.
    const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'pipe'], cwd: '/' });
    const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS);
    const answer: Buffer[] = [];
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => answer.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      said = `${said}${chunk.toString('utf8')}`.slice(0, MAX_SAID);
    });
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(Buffer.concat(answer).toString('utf8')) as Plan);
      } catch {
        reject(new Error(`the configuration could not be read: ${said.trim() || `ended with ${signal ?? code}`}`));
      }
    });
    child.stdin.end(JSON.stringify(request));
  });
}
