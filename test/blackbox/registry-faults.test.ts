/** The real program and a registry behind HTTP that is away from the start, frozen under load, and back again. */
import { writeFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { FaultProxy } from '../integration/fault-proxy.js';
import { TargetsServer } from '../integration/targets-server.js';
import { freePort, Host, until } from './program.js';

t.setTimeout(240_000);

/** A zone whose registry is behind a proxy, and one of a file. */
async function host(t: Test) {
  const server = await TargetsServer.start();
  server.services.set('orders', ['10.0.0.1:80', '10.0.0.2:80']);
  const proxy = await FaultProxy.start(server.port);
  const one = new Host();
  t.teardown(async () => {
    await one.dispose();
    await proxy.stop();
    server.stop();
  });
  one.port = await freePort();
  const configure = (ttl = '2s'): void =>
    writeFileSync(
      one.config,
      `version: 1
listen: ["127.0.0.1:${one.port}"]
stateDir: state
runDir: run
zones:
  - name: svc.test
    softTtl: 2s
    answerTtl: ${ttl}
    check: { type: none }
    registry: { type: http, url: "${proxy.origin}/sd", interval: 1s }
  - name: file.test
    check: { type: none }
    registry: { type: file, path: services.yaml }
`,
    );
  configure();
  one.list({ local: [8080] });
  const answered = async (): Promise<number[]> => (await one.ask('orders')).answers.map((rr) => Number(rr.port));
  return { one, server, proxy, configure, answered };
}

t.test('A15, D20: a registry that is away from the start hinders nothing else, and is no denial', async (t) => {
  const { one, server, proxy } = await host(t);
  await proxy.break({ kind: 'silent' });
  const resolver = await one.serve();
  await until('a zone of a file', async () => (await one.ask('local.file.test.')).answers.length === 1);
  const unknown = await one.ask('orders');
  t.same([unknown.rcode, unknown.ede.map(({ code }) => code)], ['SERVFAIL', [14]]);
  await proxy.break({ kind: 'refuse' });
  t.equal((await one.ask('orders')).rcode, 'SERVFAIL');
  await proxy.mend();
  await until('the first list', async () => (await one.ask('orders')).answers.length === 2);
  await one.saved('orders');

  await proxy.break({ kind: 'refuse' });
  resolver.kill('SIGKILL');
  await resolver.ended;
  await one.serve();
  const stale = await one.ask('orders');
  t.same([stale.rcode, stale.answers.length, stale.ede.map(({ code }) => code)], ['NOERROR', 2, [3]]);
  await proxy.mend();
  server.services.set('late', ['10.0.0.9:80']);
  await until('what is new', async () => (await one.ask('late')).answers.length === 1);
});

t.test(
  'D2, D17, D27, D36, D65: under load every answer is there, and the registry is asked no more for it',
  async (t) => {
    const { one, server, proxy, answered } = await host(t);
    const resolver = await one.serve();
    await until('the first list', async () => (await answered()).length === 2);
    const lines = (): number => resolver.output.split('\n').length;
    for (const fault of [
      { kind: 'silent' },
      { kind: 'status', status: 500 },
      { kind: 'refuse' },
      { kind: 'garbage' },
    ] as const) {
      await proxy.break(fault);
      const [asked, said] = [proxy.requests.length, lines()];
      const start = performance.now();
      let wrong = 0;
      for (let round = 0; round < 50; round++) {
        const replies = await Promise.all(Array.from({ length: 20 }, () => answered()));
        wrong += replies.filter((ports) => ports.length !== 2).length;
      }
      await until('it is told', async () => (await one.ask('orders')).ede.some(({ code }) => code === 3));
      const seconds = (performance.now() - start) / 1000;
      t.equal(wrong, 0, `${fault.kind}: 1,000 of 1,000 answers`);
      t.ok(
        proxy.requests.length - asked <= 5 + 2 * seconds,
        `${proxy.requests.length - asked} requests in ${seconds} s`,
      );
      t.ok(lines() - said <= 10, `${lines() - said} lines of log`);
      await proxy.mend();
      server.services.set('orders', ['10.0.0.1:80', '10.0.0.2:80']);
      await until(`heard again after ${fault.kind}`, async () => (await one.ask('orders')).ede.length === 0);
    }
    server.services.set('orders', ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']);
    await until('the new endpoint', async () => (await answered()).length === 3);
  },
);

t.test('D32: twenty reloads with the registry away, ten of them broken, lose no answer', async (t) => {
  const { one, proxy, configure, answered } = await host(t);
  const resolver = await one.serve();
  await until('the first list', async () => (await answered()).length === 2);
  await proxy.break({ kind: 'refuse' });
  let asking = true;
  // A busy machine may be late with a reply, which is asked for once more then; a wrong one is wrong.
  let [asked, wrong] = [0, 0];
  const load = (async () => {
    while (asking) {
      const replies = await Promise.all(Array.from({ length: 10 }, () => answered().catch(answered)));
      asked += replies.length;
      wrong += replies.filter((ports) => ports.length !== 2).length;
    }
  })();
  const reloads = (): number => resolver.events().filter(({ event }) => /^reload/.test(event)).length;
  for (let i = 0; i < 20; i++) {
    configure(i % 2 === 0 ? `${3 + i}s` : 'sometimes');
    const before = reloads();
    resolver.kill('SIGHUP');
    await until(`reload ${i}`, () => reloads() > before);
  }
  asking = false;
  await load;
  t.same([asked > 200, wrong], [true, 0], `${asked} questions`);
  t.ok(resolver.alive);
});
