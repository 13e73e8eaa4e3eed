/** A holdfast that has its services from a snapshot, as after a restart. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './ask.mjs';
import { serviceName, ZONE } from './data.mjs';
import { serveArguments, writeConfig } from './holdfast.mjs';

const LIST_MS = 300_000;
const SNAPSHOT_MS = 300_000;
const ANSWER_MS = 120_000;
/** A datagram that comes too early is lost: the next one follows at once. */
const RETRY_MS = 2;

/**
 * Lets holdfast read the registry's file once and write its snapshot, then ends it the hard way.
 * @returns the configuration with that snapshot behind it, and the time to the first list's answers in ms
 */
export async function prepareSnapshot(bench, name, data, zone = {}) {
  const folder = bench.folder(name);
  const port = await bench.port();
  const registry = data.registryFile();
  const config = writeConfig(folder, port, registry, { zone });
  const began = performance.now();
  const program = bench.start(process.execPath, serveArguments(config));
  await answersAll(port, data, LIST_MS);
  const listMs = performance.now() - began;
  const snapshots = join(folder, 'state', 'snapshots');
  for (let waited = 0; !hasFile(snapshots); waited += 100) {
    if (waited > SNAPSHOT_MS || !program.alive) throw new Error(`no snapshot came: ${program.output}`);
    await sleep(100);
  }
  const memory = program.memory();
  await program.kill();
  return { port, config, listMs, memory };
}

/** Starts it. @returns the program and the time from then to the first answer, in ms */
export async function startFromSnapshot(bench, { port, config }, core) {
  const began = performance.now();
  const program = bench.start(process.execPath, serveArguments(config), { core });
  const accept = (reply) => reply.rcode === 0 && reply.answers > 0;
  await ask(port, `${serviceName(0)}.${ZONE}`, 'SRV', { timeout: ANSWER_MS, retry: RETRY_MS, accept });
  return { program, ms: performance.now() - began };
}

/** The last service of the list is answered: so are all. */
function answersAll(port, data, timeout) {
  const accept = (reply) => reply.rcode === 0 && reply.answers > 0;
  return ask(port, `${serviceName(data.services - 1)}.${ZONE}`, 'SRV', { timeout, accept });
}

/** Files come by rename: one that is there is whole. */
function hasFile(folder) {
  return existsSync(folder) && readdirSync(folder).some((file) => !file.includes('.tmp') && !file.startsWith('.'));
}
