/** exec: a program of this host judges the endpoint; status 0 passes. Only local configuration names one (R18). */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Ms } from '../../system/clock.js';
import { reapGroup } from '../../system/orphans.js';
import type { Target } from '../feed.js';
import { attempt, failure, local, type Outcome, PASS, type Probe, TWICE } from './attempt.js';

/** Programs that run at once, at most. Others wait, and their time begins when they do. */
export const MAX_RUNNING = 8;
const MAX_OUTPUT_BYTES = 100;
/** What a program says beyond this is read so much at a time, with pauses: it may not take the time of all other probes. */
const FREE_BYTES = 256 * 1024;
const PAUSE_MS: Ms = 10;
/** So long after the end of a program what it has said is still read. */
const LAST_WORDS_MS: Ms = 50;

let running = 0;
/** By zone (R31): each in its turn. */
const waiting = new Map<string, (() => void)[]>();

function wait(group = ''): Promise<void> {
  return new Promise((resolve) => {
    const queue = waiting.get(group);
    if (queue === undefined) waiting.set(group, [resolve]);
    else queue.push(resolve);
  });
}

/** The first of the zone whose turn it is, which then goes behind the others. */
function takeNext(): (() => void) | undefined {
  for (const [group, queue] of waiting) {
    const first = queue.shift();
    waiting.delete(group);
    if (queue.length > 0) waiting.set(group, queue);
    return first;
  }
  return undefined;
}

export const probeExec: Probe = async (target, signal, tries = TWICE) => {
  if (running >= MAX_RUNNING) {
    tries.waits(true);
    await wait(target.group);
    tries.waits(false);
  } else running++;
  try {
    return await run(target, signal);
  } finally {
    const next = takeNext();
    if (next === undefined) running--;
    else next();
  }
};

/** The program and all that it started are killed at the end of its time. */
function run({ address, port, timeout, command }: Target, signal: AbortSignal): Promise<Outcome> {
  const [program, ...args] = command ?? [];
  if (program === undefined) return Promise.resolve(local('no command'));
  return attempt(timeout, signal, (settle) => {
    const env = { PATH: process.env.PATH, HOLDFAST_ADDRESS: address, HOLDFAST_PORT: String(port) };
    const child = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
    let said = '';
    child.on('error', (error: NodeJS.ErrnoException) => settle(local(`${error.code ?? error.message}, ${program}`)));
    // Without descriptors there is none, whatever the types say.
    const stderr: Readable | undefined = child.stderr;
    let read = 0;
    stderr?.on('data', (chunk: Buffer) => {
      if (said.length < MAX_OUTPUT_BYTES) said += chunk.toString('utf8');
      read += chunk.length;
      if (read <= FREE_BYTES) return;
      stderr.pause();
      setTimeout(() => stderr.resume(), PAUSE_MS);
    });
    // What it has left running may hold its standard error open for ever: that must neither stay nor be waited for.
    child.on('exit', () => {
      killAll(child);
      setTimeout(() => {
        stderr?.destroy();
        if (child.pid !== undefined) reapGroup(child.pid);
      }, LAST_WORDS_MS);
    });
    child.on('close', (code, killedBy) => {
      if (code === 0) settle(PASS);
      else settle(failure('bad-status', `${killedBy ?? `exit ${code}`}${firstLine(said)}`));
    });
    const release = (): void => {
      if (child.exitCode === null && child.signalCode === null) killAll(child);
    };
    return { release };
  });
}

/** The program, and what it started in its process group. */
function killAll({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nobody is left.
  }
}

function firstLine(text: string): string {
  const line = text.trim().split('\n')[0]!.slice(0, MAX_OUTPUT_BYTES);
  return line === '' ? '' : `: ${line}`;
}
