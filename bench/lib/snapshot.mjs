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
 * Lets holdfast read the registry's file once and write its snapshot, then ends it.
 * @returns the configuration with that snapshot behind it, and the time to the first list's answers in ms
 */
export async function prepareSnapshot(bench, name, data, zone = {}) {
  const folder = bench.folder(name);
  const port = await bench.port();
  const registry = data.registryFile();
  const config = writeConfig(folder, port, registry, { zone });
  const began = performance.now();
  const program = bench.start(process.execPath, serveArguments(config));
  // The last service of the list is answered: so are all.
  await answers(program, port, data.services - 1, { timeout: LIST_MS });
  const listMs = performance.now() - began;
  const snapshots = join(folder, 'state', 'snapshots');
  for (let waited = 0; !hasFile(snapshots); waited += 100) {
    if (waited > SNAPSHOT_MS || !program.alive) throw new Error(`no snapshot came: ${program.output}`);
    await sleep(100);
  }
  const memory = program.memory();
  await program.stop();
  return { port, config, listMs, memory };
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
