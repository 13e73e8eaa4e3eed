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
