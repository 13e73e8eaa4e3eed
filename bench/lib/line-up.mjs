/** Starts servers that all serve the same names, caches warmed up and cut off from where they got their answers. */
import { findUpstream } from '../peers/index.mjs';
import { ask } from './ask.mjs';
import { serviceName, ZONE } from './data.mjs';
import { dnsperf } from './load.mjs';
import { SERVER_CORE } from './system.mjs';
import { say } from './workbench.mjs';

const START_MS = 60_000;
const WARM_UP_OUTSTANDING = 50;

/**
 * @param data a DataSet
 * @param warmUp question files that caches must know, with whether they are asked by EDNS or TCP
 * @returns the servers with `port` and `running`; those that did not come up are left out and told in `failed`
 */
export async function lineUp(bench, servers, data, warmUp) {
  const zoneFile = data.zoneFile();
  const registryFile = data.registryFile();
  const upstream = await startUpstream(bench, zoneFile);
  const ready = [];
  const failed = [];
  for (const server of servers) {
    const port = await bench.port();
    const context = { bench, folder: bench.folder(server.key), port, core: SERVER_CORE, zone: ZONE };
    const running = server.start({ ...context, zoneFile, registryFile, upstream: upstream.port });
    try {
      await untilAnswers(server, port, running);
      if (server.serves === 'cache') await warm(server, port, warmUp);
      ready.push({ ...server, port, running });
    } catch (error) {
      say(`${server.title} is left out: ${error.message}\n${running.output}`);
      failed.push(server.title);
      await running.kill();
    }
  }
  // What a cache does not hold is lost from here on, and shows.
  upstream.running.freeze();
  return { ready, failed, upstream };
}

/** A nameserver with the zone file, for caches to ask. */
export async function startUpstream(bench, zoneFile) {
  const server = findUpstream();
  const port = await bench.port();
  const running = server.start({ bench, folder: bench.folder('upstream'), port, zone: ZONE, zoneFile });
  await untilAnswers(server, port, running);
  return { port, running };
}

/** Resolves with the first answer to the first service's name. Rejects when the program ends instead. */
export function untilAnswers(server, port, running) {
  const accept = (reply) => server.serves === 'echo' || (reply.rcode === 0 && reply.answers > 0);
  const ended = running.ended.then(() => {
    throw new Error('it ended');
  });
  return Promise.race([ask(port, `${serviceName(0)}.${ZONE}`, 'SRV', { timeout: START_MS, accept }), ended]);
}

async function warm(server, port, warmUp) {
  for (const { file, edns, tcp } of warmUp) {
    // What was lost in the first pass is asked again in the second.
    for (let pass = 0; pass < 2; pass++) {
      await dnsperf(port, file, { outstanding: WARM_UP_OUTSTANDING, edns, tcp, core: undefined });
    }
  }
  say(`${server.title} is warm`);
}
