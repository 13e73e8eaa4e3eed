/** The drill with a real etcd: 6 backends, 200 requests a second, 60 s, and no request lost. */
import { join } from 'node:path';
import t from 'tap';
import { drill } from '../blackbox/drill.js';
import { EtcdServer, etcdVersion } from './etcd-server.js';

t.setTimeout(115_000);

const missing = etcdVersion() === undefined ? 'no etcd here' : false;
if (missing) console.error('skipped: the drill with etcd (no etcd on the PATH; Debian: etcd-server)');

t.test('a minute in which everything goes and comes back', { skip: missing }, (t) =>
  drill(
    t,
    async () => {
      const server = await EtcdServer.start(join(t.testdir({}), 'etcd'));
      t.teardown(() => server.stop());
      return {
        section: `type: etcd, endpoints: ["${server.origin}"], layout: plain, prefix: /drill`,
        fill: async (ports) => {
          for (const port of ports) await server.put(`/drill/orders/${port}`, { address: '127.0.0.1', port });
        },
        kill: () => server.stop(),
        backEmpty: async () => {
          server.wipe();
          await server.run();
        },
      };
    },
    60,
  ),
);
