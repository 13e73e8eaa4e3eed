/** `bare-connect.mjs PORT RATE SECONDS`: connections that are reset at once, and nothing else. Prints µs of CPU of each. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const [port, rate, seconds] = process.argv.slice(2).map(Number);
const WARM_S = 2;
const LOOK_MS = 5;

let started = 0;
let done = 0;

function one(n) {
  const socket = connect({ host: `127.1.${(n >> 8) & 255}.${n & 255}`, port });
  socket.on('error', () => undefined);
  socket.once('connect', () => socket.resetAndDestroy());
  socket.once('close', () => done++);
}

const begun = performance.now();
setInterval(() => {
  const due = ((performance.now() - begun) / 1000) * rate;
  while (started < due) one(started++);
}, LOOK_MS).unref();
await sleep(WARM_S * 1000);
const before = { done, cpu: process.cpuUsage() };
await sleep(seconds * 1000);
const { user, system } = process.cpuUsage(before.cpu);
process.stdout.write(`${JSON.stringify({ us: (user + system) / (done - before.done) })}\n`);
process.exit(0);
