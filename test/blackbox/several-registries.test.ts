/** The real program with two registries in order of belief (R32): a server, and a file as the floor. */
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { TargetsServer } from '../integration/targets-server.js';
import { freePort, Host, until } from './program.js';

t.setTimeout(120_000);

t.test('a server first, a file as the floor, over an outage and a crash', async (t) => {
  const server = await TargetsServer.start();
  const host = new Host();
  t.teardown(async () => {
    await host.dispose();
    server.stop();
  });
  const { port } = server;
  host.port = await freePort();
  host.configure(['allowAddresses: ["127.0.0.0/8"]']);
  const http = `{ type: http, url: "http://127.0.0.1:${port}/sd", interval: 1s }`;
  const text = readFileSync(host.config, 'utf8');
  writeFileSync(host.config, text.replace(/registry: (.*)/, `registries: [${http}, $1]`));
  server.services.set('orders', ['127.0.0.1:1001', '127.0.0.1:1002']);
  server.services.set('gone', ['127.0.0.1:1003']);
  host.list({ orders: [2001], floor: [2002], gone: [2003] });
  let resolver = await host.serve();
  const ports = async (service: string, wanted: string): Promise<void> => {
    await until(`${service}: ${wanted}`, async () => (await host.ports(service)).join() === wanted);
  };
  await ports('orders', '1001,1002');
  await ports('floor', '2002');
  const registries = () => host.json<StatusDocument>('status').zones[0]?.registries ?? [];
  // On a busy machine a poll may come too late.
  await until('both heard', () => registries().every(({ heard }) => heard));
  t.match(registries(), [
    { registry: `http:http://127.0.0.1:${port}/sd`, services: 2, endpoints: 3 },
    { registry: /^file:/, services: 3 },
  ]);
  const told = host.json<Explanation>('explain', 'orders.svc.test', 'SRV');
  t.match(told.endpoints[0]?.registries, [`http:http://127.0.0.1:${port}/sd`]);
  t.ok(
    told.because.some((one) =>
      /from http:.*: the first in order of belief, and later ones have it too \(R32\)/.test(one),
    ),
  );

  server.services.delete('gone');
  await until('it goes', () => host.json<StatusDocument>('status').zones[0]?.guard.services.includes('gone') ?? false);
  t.equal(host.command('accept', 'gone').code, 0);
  t.equal((await host.ask('gone')).rcode, 'NXDOMAIN', 'the floor does not bring it back');
  await host.saved('"once":["gone"]');

  server.stop();
  await until('it is not heard', () => host.json<StatusDocument>('status').zones[0]?.heard === false);
  host.list({ orders: [2001], floor: [2002, 2004], gone: [2003] });
  await ports('floor', '2002,2004');
  await ports('orders', '1001,1002');
  await host.saved('2004');
  resolver.kill('SIGKILL');
  await resolver.ended;
  resolver = await host.serve();
  await ports('orders', '1001,1002');
  await ports('floor', '2002,2004');
  t.equal((await host.ask('gone')).rcode, 'NXDOMAIN', 'not after a crash either');
  const { problems } = host.json<StatusDocument>('status');
  t.ok(
    problems.some((one) => /registry http:.* not heard for .*capacity is frozen/.test(one)),
    problems.join('\n'),
  );
  t.match(host.command('status').stdout, /file:.*: heard, confirmed .* ago; 3 services, 4 endpoints/);
});
