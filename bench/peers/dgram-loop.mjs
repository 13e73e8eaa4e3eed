import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../inside/dgram-loop.mjs', import.meta.url));

/** No nameserver: the limit that node:dgram sets, and with it the portable transport's. */
export const dgramLoop = {
  key: 'dgram-loop',
  title: 'node:dgram loop, no DNS',
  serves: 'echo',
  start({ bench, port, core }) {
    return bench.start(process.execPath, [PROGRAM, String(port)], { core });
  },
};
