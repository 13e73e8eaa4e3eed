/** A folder, ports, compiled tools and started programs that all go when the benchmark ends, whatever ends it. */
import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Program, stopAll } from './process.mjs';
import { root, which } from './system.mjs';

const FIRST_PORT = 21_000;

export class Workbench {
  dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  #port = FIRST_PORT;
  #tools = new Map();

  constructor() {
    // Servers that give up root must still reach what is theirs.
    chmodSync(this.dir, 0o755);
  }

  /** A new folder below the workbench. */
  folder(name) {
    const path = join(this.dir, name);
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** A port of 127.0.0.1 that nobody has. */
  async port() {
    for (;;) {
      const port = this.#port++;
      if (await isFree(port)) return port;
    }
  }

  /** Compiles one of bench/native. Returns its path. */
  tool(name) {
    if (!this.#tools.has(name)) {
      const compiler = which('cc');
      if (compiler === undefined) throw new Error('a C compiler (cc) is needed');
      const source = fileURLToPath(new URL(`../native/${name}.c`, import.meta.url));
      const target = join(this.dir, `tool-${name}`);
      execFileSync(compiler, ['-O2', '-pthread', '-o', target, source], { stdio: 'inherit' });
      this.#tools.set(name, target);
    }
    return this.#tools.get(name);
  }

  start(command, args, options) {
    return new Program(command, args, options);
  }

  async close() {
    await stopAll();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Runs `task` with a workbench and clears up after it, also at Ctrl-C. Sets the exit code. */
export async function atWorkbench(task) {
  if (!existsSync(join(root, 'dist', 'main.js'))) {
    process.stderr.write('bench: not built yet: run `npm run build` first\n');
    process.exit(2);
  }
  for (const program of ['taskset', 'dnsperf']) {
    if (which(program) !== undefined) continue;
    process.stderr.write(`bench: ${program} is needed and was not found\n`);
    process.exit(2);
  }
  const bench = new Workbench();
  const end = (code) => bench.close().finally(() => process.exit(code));
  process.once('SIGINT', () => end(130));
  process.once('SIGTERM', () => end(143));
  try {
    await task(bench);
    await end(0);
  } catch (error) {
    process.stderr.write(`bench: ${error.stack}\n`);
    await end(1);
  }
}

export function say(text) {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
}

function isFree(port) {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    socket.once('error', () => {
      socket.close();
      resolve(false);
    });
    socket.bind(port, '127.0.0.1', () => socket.close(() => resolve(true)));
  });
}
