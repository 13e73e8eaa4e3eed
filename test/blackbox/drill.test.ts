/** The drill with a file as the registry, in a quarter of the time; with etcd and at full length: test/integration. */
import { rmSync } from 'node:fs';
import t from 'tap';
import { drill } from './drill.js';

t.setTimeout(110_000);

t.test('no request is lost while registry, backends, resolver and prober go and come back', (t) =>
  drill(
    t,
    async (host) => ({
      section: 'type: file, path: services.yaml',
      fill: async (ports) => host.list({ orders: ports }),
      kill: async () => rmSync(host.registry),
      backEmpty: async () => host.list({}),
    }),
    15,
  ),
);
