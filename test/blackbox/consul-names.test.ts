/** The real program with `naming: consul`: over both transports, beside an agent that knows more names, and without it. */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { addressBytes } from '../../src/dns/addresses.js';
import { TYPE } from '../../src/dns/constants.js';
import { FakeUpstream } from '../forward-fixture.js';
import { freePort, Host, until } from './program.js';

t.setTimeout(120_000);

const REGISTRY = `
nodes:
  web-1: { address: 127.0.0.1, meta: { rack: a7 } }
  idle: { address: 10.9.0.7 }
services:
  web:
    endpoints:
      - { node: web-1, port: 8080, tags: [blue], priority: 1 }
      - { node: web-1, address: 127.0.0.9, port: 8080, priority: 1 }
`;
const AGENT_SAYS = {
  answers: [{ type: TYPE.A, ttl: 0, rdata: addressBytes('192.0.2.7')! }],
};

t.test('names of the catalog come from here, others from the agent, and from nobody when there is none', async (t) => {
  const agent = await new FakeUpstream(() => AGENT_SAYS).start(t);
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  const zone = ['naming: consul', `agentDns: ["127.0.0.1:${agent.at.port}"]`];
  const quiet = 'check: { type: none }';
  const configure = (lines: readonly string[]): void => {
    host.configure(lines);
    const text = `version: 1
listen: ["127.0.0.1:${host.port}"]
stateDir: state
runDir: run
zones:
  - name: svc.test
    registry: { type: file, path: services.yaml }
    softTtl: 2s
${[quiet, ...lines].map((line) => `    ${line}\n`).join('')}`;
    writeFileSync(host.config, text);
  };
  configure(zone);
  writeFileSync(host.registry, REGISTRY);
  const resolver = await host.serve();
  await until('the first list', async () => (await host.ask('web.service A')).answers.length === 2);

  for (const tcp of ['', ' +tcp']) {
    const srv = await host.ask(`_web._tcp.dc1${tcp}`);
    t.same(srv.answers.map(({ target }) => target).sort(), ['7f000009.addr.dc1.svc.test', 'web-1.node.dc1.svc.test']);
    t.equal(srv.additionals.length, 2);
    t.match(await host.ask(`idle.node A${tcp}`), { answers: [{ address: '10.9.0.7' }], flags: ['aa'] });
    t.match(await host.ask(`web-1.node.dc1 TXT${tcp}`), { answers: [{ data: ['rack=a7'] }] });
    t.match(await host.ask(`nope.service A${tcp}`), { rcode: 'NXDOMAIN', flags: ['aa'], answers: [] });
  }
  t.equal(agent.heard.length, 0, 'the agent is not asked for what the catalog tells');

  for (const more of ['', ' +tcp', ' +rd']) {
    t.match(
      await host.ask(`geo.query A${more}`),
      { rcode: 'NOERROR', answers: [{ address: '192.0.2.7' }], flags: [] },
      'neither authoritative nor offering recursion',
    );
  }
  t.match(
    await host.ask('0b000001.addr A'),
    { answers: [{ address: '192.0.2.7' }], flags: [] },
    'an address of nobody here',
  );
  t.same([...new Set(agent.heard.map(({ name }) => name))], ['geo.query.svc.test', '0b000001.addr.svc.test']);

  const explained = host.json<Explanation>('explain', 'geo.query.svc.test', 'A');
  t.match(explained, { outcome: 'forwarded', zone: 'svc.test' });
  t.match(explained.because[0], /the agents of agentDns are asked/);
  t.match(host.json<Explanation>('explain', 'web.service.svc.test', 'A'), { outcome: 'answer', service: 'web' });
  const status = host.json<StatusDocument>('status');
  t.match(status.forward?.upstreams, [{ domain: 'svc.test', state: 'up' }]);
  t.match(host.command('query', 'web-1.node.svc.test', 'A', '--short').stdout, /^127\.0\.0\.1$/m);
  t.equal(host.command('check').code, 0);

  agent.behave = () => undefined;
  const stale = await host.ask('geo.query A');
  t.match(stale, { rcode: 'NOERROR', answers: [{ address: '192.0.2.7' }] }, 'the last answer of a silent agent stands');
  t.match(await host.ask('web.service A'), { answers: [{}, {}] }, 'held names do not wait for it');

  configure(['naming: consul']);
  resolver.kill('SIGHUP');
  await until('the agent to be forgotten', async () => (await host.ask('geo.query A')).ede[0]?.code === 21);
  t.match(await host.ask('geo.query A'), { ede: [{ code: 21 }], flags: [] });
  t.match(await host.ask('web.service A'), { answers: [{}, {}] });
  t.equal(host.json<StatusDocument>('status').forward, undefined);
});
