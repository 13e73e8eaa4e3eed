/** The real program with endpoints that are listed by host name (R28), while their name server comes and goes. */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import type { StatusDocument } from '../../src/admin/documents.js';
import { RCODE, TYPE } from '../../src/dns/constants.js';
import { a, FakeUpstream } from '../forward-fixture.js';
import { Backend, freePort, Host, until } from './program.js';

t.setTimeout(120_000);

for (const how of ['bootstrap', 'forward'] as const) {
  t.test(`host names are resolved by ${how}, probed, and kept`, async (t) => {
    const backend = await new Backend().open();
    const server = await new FakeUpstream(({ type }) =>
      type === TYPE.A ? { answers: [a('127.0.0.1', 1)] } : {},
    ).start(t);
    const host = new Host();
    t.teardown(async () => {
      await host.dispose();
      await backend.close();
    });
    host.port = await freePort();
    const servers = `["127.0.0.1:${server.at.port}"]`;
    host.configure([], [how === 'bootstrap' ? `bootstrap: ${servers}` : `forward: { upstreams: ${servers} }`]);
    writeFileSync(
      host.registry,
      `services: { db: { endpoints: [{ address: db.example.com, port: ${backend.port} }, { address: web.svc.test, port: 1 }] } }\n`,
    );
    const resolver = await host.serve();
    host.probe();
    await until('its address', async () => (await host.ask('db A')).answers.length === 1);
    t.match((await host.ask('db A')).answers, [{ address: '127.0.0.1' }]);
    const targets = (await host.ask('db SRV')).answers.map(({ target, port }) => `${target}:${port}`);
    t.same(targets.sort(), [`db.example.com:${backend.port}`, 'web.svc.test:1']);
    const { zones, problems } = host.json<StatusDocument>('status');
    t.match(zones[0]?.hosts, [/^web\.svc\.test: refused: a name of a zone of this server.*SRV only, and not probed$/]);
    t.ok(problems.some((problem) => problem.includes('web.svc.test')));

    server.behave = () => ({ rcode: RCODE.SERVFAIL });
    await host.saved(`"address":"127.0.0.1","port":${backend.port}`);
    resolver.kill('SIGKILL');
    await resolver.ended;
    await host.serve();
    t.match((await host.ask('db A')).answers, [{ address: '127.0.0.1' }], 'after a crash, with no name server');
    await until(
      'a word on it',
      () =>
        host
          .json<StatusDocument>('status')
          .zones[0]?.hosts.some((one) => /db\.example\.com: .*its last addresses stand/.test(one)) ?? false,
    );
    t.match((await host.ask('db A')).answers, [{ address: '127.0.0.1' }]);
  });
}
