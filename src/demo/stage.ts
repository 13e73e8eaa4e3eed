/** The demo's stage: a temporary folder, backends, resolver and prober, all taken down in the end. */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { askControl } from '../ask/control.js';
import type { ListenAddress } from '../config/types.js';
import { packageFolder } from '../system/version.js';
import { freePort } from './ports.js';

export const ZONE = 'svc.internal';

export interface Backend {
  readonly service: string;
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

/** Linux has the whole of 127/8, so that backends can have addresses of their own. */
const OWN_ADDRESSES = process.platform === 'linux';
const CAST = [
  { service: 'orders', name: 'orders-1', address: '127.0.0.1', port: 8081 },
  { service: 'orders', name: 'orders-2', address: OWN_ADDRESSES ? '127.0.0.2' : '127.0.0.1', port: 8082 },
  { service: 'billing', name: 'billing-1', address: OWN_ADDRESSES ? '127.0.0.3' : '127.0.0.1', port: 8083 },
] as const;

export const BACKEND_PROGRAM = fileURLToPath(new URL('./backend.js', import.meta.url));
export const LAUNCHER = join(packageFolder() ?? '.', 'bin', 'holdfast.js');

const READY_MS = 20_000;
const STOP_MS = 4000;

export class Stage {
  readonly folder: string;
  readonly configFile: string;
  readonly registryFile: string;
  readonly runDir: string;
  dns: ListenAddress = { address: '127.0.0.1', port: 5300 };
  backends: Backend[] = [];
  /** Called when the resolver or the prober ends by itself. */
  onDeath: (what: string) => void = () => {};
  readonly #interval: string;
  readonly #running = new Map<string, ChildProcess>();
  #down = false;

  /** `interval`: of the checks, such as `1s`. */
  constructor(interval: string) {
    this.#interval = interval;
    this.folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
    this.configFile = join(this.folder, 'holdfast.yaml');
    this.registryFile = join(this.folder, 'services.yaml');
    this.runDir = join(this.folder, 'run');
  }

  /** Resolves when the resolver answers and the prober has a word on every backend. */
  async setUp(): Promise<void> {
    const taken = new Set<number>();
    this.dns = { address: '127.0.0.1', port: await freePort('127.0.0.1', 5300, { udp: true }) };
    for (const member of CAST) {
      const port = await freePort(member.address, member.port, { taken });
      taken.add(port);
      this.backends.push({ ...member, port });
    }
    mkdirSync(this.runDir);
    this.writeRegistry();
    writeFileSync(this.configFile, this.#configText());
    await Promise.all(this.backends.map((backend) => this.startBackend(backend)));
    this.#startProgram('resolver', 'serve');
    this.#startProgram('prober', 'probe');
    await this.#ready();
  }

  pid(name: string): number | undefined {
    return this.#running.get(name)?.pid;
  }

  startBackend(backend: Backend): Promise<void> {
    const { name, address, port } = backend;
    const child = fork(BACKEND_PROGRAM, [name, address, String(port)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#running.set(name, child);
    return new Promise((resolve, reject) => {
      child.once('message', () => resolve());
      child.once('error', reject);
      child.once('exit', () => {
        if (this.#running.get(name) === child) this.#running.delete(name);
        reject(new Error(`${name} did not start`));
      });
    });
  }

  killBackend(name: string): void {
    this.#running.get(name)?.kill('SIGKILL');
  }

  writeRegistry(): void {
    writeFileSync(this.registryFile, this.#registryText());
  }

  removeRegistry(): void {
    rmSync(this.registryFile, { force: true });
  }

  /** The last lines of a program's log, for when it has died. */
  lastWords(what: string): string {
    try {
      return readFileSync(this.#logFile(what), 'utf8').trimEnd().split('\n').slice(-5).join('\n');
    } catch {
      return '';
    }
  }

  /** Ends all processes and removes the folder. Safe to call again. */
  async tearDown(): Promise<void> {
    if (this.#down) return;
    this.#down = true;
    const ends = [...this.#running.values()].map(
      (child) =>
        new Promise<void>((resolve) => {
          if (child.exitCode !== null || child.signalCode !== null) return resolve();
          child.once('exit', () => resolve());
          child.kill('SIGTERM');
          setTimeout(() => child.kill('SIGKILL'), STOP_MS).unref();
        }),
    );
    await Promise.all(ends);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }

  #startProgram(what: string, command: string): void {
    const log = openSync(this.#logFile(what), 'a');
    // A group of its own: Ctrl-C is for the demo, which ends the others in order.
    const child = spawn(process.execPath, [LAUNCHER, command, '--config', this.configFile], {
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    this.#running.set(what, child);
    const died = () => {
      this.#running.delete(what);
      if (!this.#down) this.onDeath(what);
    };
    child.once('error', died);
    child.once('exit', died);
  }

  #logFile(what: string): string {
    return join(this.folder, `${what}.log`);
  }

  async #ready(): Promise<void> {
    const until = performance.now() + READY_MS;
    while (!(await this.#allProbed())) {
      if (!this.#running.has('resolver')) throw new Error(`the resolver did not start:\n${this.lastWords('resolver')}`);
      if (performance.now() > until) throw new Error(`the resolver was not ready within ${READY_MS / 1000}s`);
      await sleep(100);
    }
  }

  async #allProbed(): Promise<boolean> {
    for (const service of new Set(this.backends.map((backend) => backend.service))) {
      const answer = await askControl(this.runDir, `/v1/explain?name=${service}.${ZONE}&type=SRV`);
      if (answer.kind !== 'answer') return false;
      const { endpoints } = answer.body as { endpoints: { probe: string }[] };
      if (endpoints.length === 0 || endpoints.some(({ probe }) => probe === 'no-word')) return false;
    }
    return true;
  }

  #configText(): string {
    return `# The demo's configuration; all options: docs/configuration.md
version: 1
listen: ["${this.dns.address}:${this.dns.port}"]
stateDir: ${join(this.folder, 'state')}
runDir: ${this.runDir}
zones:
  - name: ${ZONE}
    registry: { type: file, path: services.yaml }
    softTtl: 5s
    check: { type: http, path: /healthz, interval: ${this.#interval}, timeout: ${this.#interval === '1s' ? '500ms' : this.#interval} }
`;
  }

  #registryText(): string {
    const lines = ["# The demo's registry: what is listed here is what may be answered", 'services:'];
    for (const service of new Set(this.backends.map((backend) => backend.service))) {
      lines.push(`  ${service}:`, '    portName: http', '    endpoints:');
      for (const { name, address, port } of this.backends.filter((backend) => backend.service === service)) {
        lines.push(`      - { id: ${name}, address: ${address}, port: ${port} }`);
      }
    }
    return `${lines.join('\n')}\n`;
  }
}
