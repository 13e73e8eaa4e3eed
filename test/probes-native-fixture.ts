/** A server that drops what comes, the sockets of this process, and the native calls where they are to be had. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import type { Target } from '../src/prober/feed.js';
import { type Outcome, TWICE } from '../src/prober/probes/attempt.js';
import { loadNativeCalls } from '../src/prober/probes/native-sockets.js';
import type { NativeTcp } from '../src/prober/probes/native-tcp.js';
import { HERE, never, type Tap, until } from './prober-fixture.js';

export const CALLS = loadNativeCalls();

export const NOT_NATIVE = typeof CALLS === 'string' ? CALLS : false;

export function outcomeOf(native: NativeTcp, target: Target, signal = never, tries = TWICE): Promise<Outcome> {
  let told = 0;
  return new Promise((resolve) => {
    native.begin(target, signal, {
      more: (made) => tries.more(made),
      unanswered: () => tries.unanswered(),
      waits: (does) => tries.waits(does),
      ended: (outcome) => {
        if (++told > 1) throw new Error('an outcome was told twice');
        resolve(outcome);
      },
    });
  });
}

/** A server that is stopped and whose queue is full: what else comes is dropped as if packets were lost, until it wakes. */
export async function stoppedBackend(t: Tap): Promise<{ readonly port: number; readonly wake: () => void }> {
  const child = spawn(process.execPath, ['-e', BACKEND], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  const fillers = Array.from({ length: 6 }, () => connect(port, HERE).on('error', () => {}));
  t.teardown(() => {
    for (const filler of fillers) filler.destroy();
    child.kill('SIGKILL');
  });
  await until(() => fillers.filter((filler) => !filler.connecting).length === 2);
  return { port, wake: () => child.kill('SIGCONT') };
}

const BACKEND = `require('net')
  .createServer((socket) => socket.on('error', () => {}))
  .listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () { console.log(this.address().port); });`;

export function openSockets(): number {
  return readdirSync('/proc/self/fd').filter((fd) => isSocket(fd)).length;
}

function isSocket(fd: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
  } catch {
    return false;
  }
}
