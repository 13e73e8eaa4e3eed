/**
 * `flipper.mjs SOCKET SURVIVES`: a prober that makes its results up. Every target passes; at each SIGUSR1 all of them fail
 * at once but one in SURVIVES, at the next they all pass again. It prints how many there are, and when they are handed
 * over.
 */
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';

const [socketPath, survives] = process.argv.slice(2);
const headers = { host: 'localhost', 'holdfast-session': randomUUID() };
const AT_ONCE = 500;
const targets = new Map();
let failing = false;

const verdicts = request({ socketPath, path: '/v1/verdicts', method: 'POST', headers, agent: false });
const bootMs = () => Number(process.hrtime.bigint()) / 1e6;
const say = (message) => verdicts.write(`${JSON.stringify(message)}\n`);
/** Their word must not run out while nothing is sent. */
const INTERVAL_MS = 600_000;

function sendAll() {
  const results = [];
  let n = 0;
  for (const key of targets.keys()) {
    const failure = failing && n++ % survives !== 0 ? { failure: 'refused', detail: 'ECONNREFUSED' } : {};
    results.push({ key, at: bootMs(), interval: INTERVAL_MS, took: 0.1, ...failure });
  }
  for (let from = 0; from < results.length; from += AT_ONCE)
    say({ op: 'results', results: results.slice(from, from + AT_ONCE) });
}

request({ socketPath, path: '/v1/targets', headers, agent: false }, (response) => {
  verdicts.flushHeaders();
  say({ op: 'hello', pid: process.pid, version: 'bench', wall: Date.now() });
  setInterval(() => say({ op: 'alive', at: bootMs(), targets: targets.size, late: 0, localErrors: 0 }), 1000);
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  });
  response.on('end', () => process.exit(0));
}).end();

function take({ targets: all, add = all ?? [], remove = [] }) {
  for (const key of remove) targets.delete(key);
  for (const target of add) targets.set(target.key, target);
  clearTimeout(settled);
  settled = setTimeout(() => {
    sendAll();
    process.stdout.write(`targets ${targets.size}\n`);
  }, 200);
}
let settled;

process.on('SIGUSR1', () => {
  failing = !failing;
  sendAll();
  verdicts.write('', () => process.stdout.write(`flipped ${failing}\n`));
});
