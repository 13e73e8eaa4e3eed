/** A holdfast that has its services from a snapshot, as after a restart. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ask } from './ask.mjs';
import { serviceName, ZONE } from './data.mjs';
import { serveArguments, writeConfig } from './holdfast.mjs';

const LIST_MS = 300_000;
const SNAPSHOT_MS = 300_000;
const ANSWER_MS = 120_000;
/** A datagram that comes too early is lost: the next one follows at once. */
const RETRY_MS = 2;

/** The start itself is over then: sockets, threads, admin. */
const STARTED_MS = 1000;
const LOOP_WATCH = fileURLToPath(new URL('../inside/loop-watch.mjs', import.meta.url));

/**
 * Lets holdfast read the registry's file once and write its snapshot, then ends it.
 * @returns the configuration with that snapshot behind it, the time to the first list's answers in ms, and the longest
 * block of the control thread in ms from a second after the start on; NaN when all was answered by then
 */
export async function prepareSnapshot(bench, name, data, zone = {}) {
  const folder = bench.folder(name);
  const port = await bench.port();
  const registry = data.registryFile();
  const config = writeConfig(folder, port, registry, { zone });
  const began = performance.now();
  const program = bench.start(process.execPath, ['--import', LOOP_WATCH, ...serveArguments(config)]);
  // The last service of the list is answered: so are all.
  const listed = answers(program, port, data.services - 1, { timeout: LIST_MS });
  const isLong = await Promise.race([listed.then(() => false), sleep(STARTED_MS, true)]);
  if (isLong) program.signal('SIGUSR2');
  await listed;
  const listMs = performance.now() - began;
  const snapshots = join(folder, 'state', 'snapshots');
  for (let waited = 0; !hasFile(snapshots); waited += 100) {
    if (waited > SNAPSHOT_MS || !program.alive) throw new Error(`no snapshot came: ${program.output}`);
    await sleep(100);
  }
  const memory = program.memory();
  const blockedMs = isLong ? await blocked(program) : Number.NaN;
  await program.stop();
  return { port, config, listMs, memory, blockedMs };
}

/** The longest block since the last signal, as loop-watch.mjs tells it. */
async function blocked(program) {
  const told = () => [...program.output.matchAll(/^loop-blocked ([\d.]+)$/gm)];
  program.signal('SIGUSR2');
  while (told().length < 2) await sleep(10);
  return Number(told().at(-1)[1]);
}

/** Starts it. @returns the program and the time from then to the first answer, in ms */
export async function startFromSnapshot(bench, { port, config }, core) {
  const began = performance.now();
  const program = bench.start(process.execPath, serveArguments(config), { core });
  await answers(program, port, 0, { timeout: ANSWER_MS, retry: RETRY_MS });
  return { program, ms: performance.now() - began };
}

/** Resolves with the first answer to a service's name. Rejects when the program ends instead. */
function answers(program, port, service, options) {
  const accept = (reply) => reply.rcode === 0 && reply.answers > 0;
  const ended = program.ended.then(() => {
    throw new Error(`holdfast ended: ${program.output}`);
  });
  return Promise.race([ask(port, `${serviceName(service)}.${ZONE}`, 'SRV', { ...options, accept }), ended]);
}

/** Files come by rename: one that is there is whole. */
function hasFile(folder) {
  return existsSync(folder) && readdirSync(folder).some((file) => !file.includes('.tmp') && !file.startsWith('.'));
}
