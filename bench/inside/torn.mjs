/**
 * Another thread asks without a pause while this one changes what it asks for, so many times a second. Every address
 * and weight of one version of a service carries the version's number: a reply that mixes two shows. Prints JSON.
 *
 *   torn.mjs QUERIES CHANGES_A_SECOND
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { AnswerTable } from '../../src/answers/table.ts';
import { ZoneAnswers } from '../../src/answers/zone-answers.ts';
import { ZONE } from '../lib/data.mjs';
import { MOST_ROWS, NAMES } from './versions.mjs';

const [queries, rate] = process.argv.slice(2).map(Number);
const spec = {
  name: ZONE,
  naming: 'rfc2782',
  answerTtl: 2000,
  negativeTtl: 2000,
  allow: ['127.0.0.0/8'],
  nameservers: ['127.0.0.1'],
};
const table = new AnswerTable({ seed: 1 });
const zone = new ZoneAnswers(table, table.allocZone(), spec);
for (let n = 0; n < NAMES; n++) put(n, n);
zone.setState({ synced: true, serial: 1, statusText: [] });

const reader = table.addReader();
const workerData = { handle: table.share(), reader, queries };
const worker = new Worker(new URL('./torn-worker.js', import.meta.url), { workerData });
table.onChange = () => worker.postMessage(table.share());
let changes = 0;
let done = false;
const ended = once(worker, 'message').then(([result]) => {
  done = true;
  return result;
});
const began = performance.now();
while (!done) {
  const due = ((performance.now() - began) / 1000) * rate;
  for (; changes < due; changes++) put((changes * 7) % NAMES, changes);
  await new Promise(setImmediate);
}
const seconds = (performance.now() - began) / 1000;
process.stdout.write(`${JSON.stringify({ ...(await ended), changes, seconds, capacity: table.size.capacity })}\n`);

function put(n, version) {
  const octet = version & 255;
  const rows = Array.from({ length: 1 + ((version * 13) % MOST_ROWS) }, (_, i) => ({
    id: String(i),
    address: `10.0.${i}.${octet}`,
    port: 8000 + octet,
    protocol: 'tcp',
    priority: 0,
    weight: 1 + octet,
    tags: [],
    state: 'passing',
  }));
  zone.putService({ label: `s${n}`, rows, answer: (subset) => subset, order: 'weighted', status: 0 });
}
