import { serveArguments, writeConfig } from '../lib/holdfast.mjs';

function holdfast(transport) {
  return {
    key: transport,
    title: `**holdfast, ${transport}**`,
    serves: 'registry',
    start({ bench, folder, port, registryFile, core }) {
      const config = writeConfig(folder, port, registryFile, { zone: { answerTtl: '24h' } });
      return bench.start(process.execPath, serveArguments(config, transport), { core });
    },
  };
}

export const batched = holdfast('batched');
export const portable = holdfast('portable');

/** As a cache in front of a nameserver: the zone is not its own. */
export const forwarding = {
  key: 'forwarding',
  title: '**holdfast, forwarding**',
  serves: 'cache',
  start({ bench, folder, port, registryFile, upstream, core }) {
    const config = writeConfig(folder, port, registryFile, {
      zone: { name: 'own.internal' },
      more: { forward: { upstreams: [`127.0.0.1:${upstream}`], cacheSize: '64MiB' } },
    });
    return bench.start(process.execPath, serveArguments(config), { core });
  },
};
