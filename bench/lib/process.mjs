/** Programs that a benchmark starts, what they cost, and their end. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const TICKS_A_SECOND = 100;
const STOP_MS = 3000;

const running = new Set();

/** A started program. Its output is kept for the case that it fails. */
export class Program {
  #child;
  #output = '';
  #ended;

  /** @param core the only core it may use, undefined: any */
  constructor(command, args, { core, env = {}, cwd } = {}) {
    const pinned = core === undefined ? [command, ...args] : ['taskset', '-c', String(core), command, ...args];
    this.#child = spawn(pinned[0], pinned.slice(1), {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.command = pinned.join(' ');
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text) => {
        this.#output = (this.#output + text).slice(-20_000);
      });
    }
    this.#ended = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        this.#output += error.message;
        resolve();
      });
      this.#child.once('exit', resolve);
    });
    running.add(this);
    void this.#ended.then(() => running.delete(this));
  }

  get pid() {
    return this.#child.pid;
  }

  get output() {
    return this.#output;
  }

  get alive() {
    return this.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when it has ended. */
  get ended() {
    return this.#ended;
  }

  /** Takes all its threads and children off the core, or back on. */
  freeze() {
    this.signal('SIGSTOP');
  }

  thaw() {
    this.signal('SIGCONT');
  }

  signal(name) {
    if (!this.alive) return;
    try {
      process.kill(-this.pid, name);
    } catch {}
  }

  async stop() {
    this.thaw();
    this.signal('SIGTERM');
    await Promise.race([this.#ended, sleep(STOP_MS)]);
    await this.kill();
  }

  async kill() {
    this.signal('SIGKILL');
    await this.#ended;
  }

  /** CPU seconds so far, of all its threads and children. */
  cpu() {
    return tree(this.pid).reduce((sum, pid) => sum + processCpu(pid), 0);
  }

  /** CPU seconds so far by thread id, of the process itself. */
  cpuByThread() {
    return new Map(list(`/proc/${this.pid}/task`).map((task) => [task, taskCpu(this.pid, task)]));
  }

  /** Resident bytes now and at most, of the process itself. */
  memory() {
    const status = read(`/proc/${this.pid}/status`);
    const bytes = (key) => Number(new RegExp(`${key}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) * 1024;
    return { now: bytes('VmRSS'), peak: bytes('VmHWM') };
  }
}

/** Ends everything that was started and still runs. */
export async function stopAll() {
  await Promise.all([...running].map((program) => program.kill()));
}

/** Runs a program to its end. Resolves with its standard output. */
export async function run(command, args, options) {
  const program = new Program(command, args, options);
  await program.ended;
  return program.output;
}

/** Times that a thread went to sleep by itself. */
export function wakeUps(pid, task) {
  return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(read(`/proc/${pid}/task/${task}/status`))?.[1] ?? 0);
}

function tree(pid) {
  const pids = [pid];
  for (let i = 0; i < pids.length; i++) {
    for (const task of list(`/proc/${pids[i]}/task`)) {
      const children = read(`/proc/${pids[i]}/task/${task}/children`).trim();
      if (children !== '') pids.push(...children.split(' ').map(Number));
    }
  }
  return pids;
}

/** Its threads that live, and its children that have ended. */
function processCpu(pid) {
  const fields = statFields(`/proc/${pid}/stat`);
  if (fields === undefined) return 0;
  const ended = (Number(fields[13]) + Number(fields[14])) / TICKS_A_SECOND;
  return list(`/proc/${pid}/task`).reduce((sum, task) => sum + taskCpu(pid, task), ended);
}

/** `schedstat` counts nanoseconds, where the kernel has it; `stat` counts ticks. */
function taskCpu(pid, task) {
  const exact = Number(read(`/proc/${pid}/task/${task}/schedstat`).split(' ')[0]) / 1e9;
  if (exact > 0) return exact;
  const fields = statFields(`/proc/${pid}/task/${task}/stat`);
  return fields === undefined ? 0 : (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
}

/** The fields after the name in brackets, which may hold anything. */
function statFields(path) {
  const text = read(path);
  return text === '' ? undefined : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function list(path) {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
