/** No nameserver: the limit that this machine sets. */
export const cLoop = {
  key: 'c-loop',
  title: 'C loop, no DNS',
  serves: 'echo',
  start({ bench, port, core }) {
    return bench.start(bench.tool('c-loop'), [String(port)], { core });
  },
};
