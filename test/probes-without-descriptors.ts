/** Run by a test: every kind of probe by a process that has no descriptor left, and one when it has some again. */
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { PROBE_TYPES, type Target } from '../src/prober/feed.js';
import { PROBES } from '../src/prober/probes/probe.js';
import { listening, never, target } from './prober-fixture.js';

const say = (what: string, text: string): void => void process.stdout.write(`${what} = ${text}\n`);
const asked: Partial<Target> = { query: 'a.test', send: 'x', command: ['/bin/true'] };

async function outcome(over: Partial<Target> & Pick<Target, 'type'>): Promise<string> {
  const outcome = await PROBES[over.type](target({ ...asked, ...over }), never);
  return outcome.kind === 'pass' ? 'pass' : `${outcome.kind}: ${outcome.detail}`;
}

const server = createServer((socket) => void socket.on('error', () => {}));
const port = await listening(server);
// What a probe needs once and for all is there before.
await outcome({ type: 'exec' });
const taken: number[] = [];
try {
  for (;;) taken.push(openSync('/dev/null', 'r'));
} catch {
  // There are no more.
}
for (const type of PROBE_TYPES) say(type, await outcome({ type, protocol: 'udp' }));
// What is told of later has its time.
await sleep(100);
for (const fd of taken) closeSync(fd);
say('after', await outcome({ type: 'exec', port }));
server.close();
