/** The real program with a registry that is given by host name, while its name server comes and goes (D51). */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { RCODE, TYPE } from '../../src/dns/constants.js';
import { a, FakeUpstream } from '../forward-fixture.js';
import { freePort, Host, until, ZONE } from './program.js';

t.setTimeout(120_000);

for (const how of ['bootstrap', 'forward'] as const) {
  t.test(`the registry's host name is asked of ${how}, and remembered`, async (t) => {
    let port = 80;
    const registry = createServer((_, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify([{ targets: [`127.0.0.1:${port}`], labels: { job: 'orders' } }]));
    });
    await new Promise<void>((done) => registry.listen(0, '127.0.0.1', done));
    const server = await new FakeUpstream(({ type, name }) =>
      type === TYPE.A && name === 'registry.example.com' ? { answers: [a('127.0.0.1', 1)] } : {},
    ).start(t);
    const host = new Host();
    t.teardown(async () => {
      await host.dispose();
      registry.close();
    });
    host.port = await freePort();
    const servers = `["127.0.0.1:${server.at.port}"]`;
    const at = (registry.address() as AddressInfo).port;
    writeFileSync(
      host.config,
      `version: 1
listen: ["127.0.0.1:${host.port}"]
stateDir: state
runDir: run
${how === 'bootstrap' ? `bootstrap: ${servers}` : `forward: { upstreams: ${servers} }`}
zones:
  - name: ${ZONE}
    registry: { type: http, url: "http://registry.example.com:${at}/", serviceLabel: job, interval: 1s }
    softTtl: 2s
    allowAddresses: ["127.0.0.0/8"]
    check: { type: none }
`,
    );
    let resolver = await host.serve();
    await resolver.said('zone-synced');
    await until('its list', async () => (await host.ask('orders SRV')).answers[0]?.port === 80);
    await host.saved('orders');

    server.behave = () => ({ rcode: RCODE.SERVFAIL });
    for (const restart of ['SIGTERM', 'SIGKILL'] as const) {
      resolver.kill(restart);
      await resolver.ended;
      port++;
      resolver = await host.serve();
      await until('the new list', async () => (await host.ask('orders SRV')).answers.some((one) => one.port === port));
      t.ok(resolver.alive, `after ${restart}`);
    }
  });
}
