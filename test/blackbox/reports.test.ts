/** Clients of the real program say that connections failed (R20). */
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { Backend, freePort, Host, until } from './program.js';

t.setTimeout(120_000);

/** Sends a document to public.sock; what came back. */
function post(one: Host, body: unknown): Promise<{ status: number; body: unknown }> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((done, fail) => {
    const asked = request(
      {
        socketPath: join(one.folder, 'run', 'public.sock'),
        path: '/v1/reports',
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
      },
      (response) => {
        let got = '';
        response.setEncoding('utf8');
        response.on('data', (data) => (got += data));
        response.on('end', () => done({ status: response.statusCode ?? 0, body: JSON.parse(got) }));
      },
    );
    asked.on('error', fail);
    asked.end(text);
  });
}

t.test('an endpoint that clients cannot reach is out at once, and back when it passes', async (t) => {
  const one = new Host();
  const backends = [await new Backend().open(), await new Backend().open(), await new Backend().open()];
  t.teardown(async () => {
    await one.dispose();
    for (const backend of backends) await backend.close();
  });
  one.port = await freePort();
  // So seldom that the prober does not find out by itself.
  one.configure(['interest: 1h', 'services: { orders: { check: { interval: 1h, pinned: true } } }']);
  const ports = backends.map(({ port }) => port).sort((a, b) => a - b);
  one.list({ orders: ports });
  const resolver = await one.serve();
  const prober = one.probe();
  await until('first verdicts', () => {
    const { endpoints } = one.json<Explanation>('explain', 'orders.svc.test', 'SRV');
    return endpoints.length === 3 && endpoints.every(({ probe }) => probe === 'passes');
  });

  const [dead, ...others] = ports as [number, ...number[]];
  const report = (port: number, service?: string) => ({
    reports: [{ address: '127.0.0.1', port, failure: 'refused', ...(service ? { service } : {}) }],
  });
  const receipt = { accepted: 1, late: 0, limited: 0 };
  t.same(await post(one, report(others[0]!)), { status: 202, body: receipt }, 'about one that is well');
  t.same(await post(one, report(1)), { status: 202, body: receipt }, 'about one that nobody knows: not told');

  const closed = backends.find(({ port }) => port === dead)!;
  await closed.close();
  t.same(await post(one, report(dead, 'orders.other.test')), { status: 202, body: receipt });
  t.same(await one.ports('orders'), ports, 'the name of another zone is not about ours');
  t.equal((await post(one, report(dead, 'orders.svc.test'))).status, 202);
  await until('the dead one out', async () => (await one.ports('orders')).join() === others.join());
  t.match(one.json<StatusDocument>('status').zones, [{ ejected: 1, heldBack: 1 }]);
  t.match(one.command('explain', 'orders.svc.test', 'SRV').stdout, /clients could not connect \(refused\)/);

  await closed.open();
  // A report brings a probe, which passes.
  await until('it is back', async () => {
    await post(one, report(dead));
    return (await one.ports('orders')).join() === ports.join();
  });
  await resolver.said('readmitted');
  const events = resolver.events().filter(({ event }) => event === 'ejected' || event === 'readmitted');
  t.match(
    events,
    [
      { event: 'ejected', port: dead, reports: 1, failure: 'refused' },
      { event: 'readmitted', port: dead },
    ],
    'one line each',
  );

  prober.kill('SIGSTOP');
  t.equal((await post(one, { reports: [...report(dead).reports, ...report(dead).reports] })).status, 202);
  await until('out without a probe that answers', async () => (await one.ports('orders')).join() === others.join());
  prober.kill('SIGCONT');
});

t.test('what is no report is refused with a reason, and too many are not counted', async (t) => {
  const one = new Host();
  t.teardown(() => one.dispose());
  one.port = await freePort();
  one.configure();
  one.list({ orders: [9] });
  const resolver = await one.serve();
  await resolver.said('zone-synced');
  await until('public.sock', async () => (await post(one, { reports: [] })).status === 202);

  const good = { address: '127.0.0.1', port: 9, failure: 'refused' };
  const cases: [unknown, RegExp][] = [
    ['{"reports":', /JSON/],
    ['[]', /expected \{"reports"/],
    [{ reports: 'x' }, /expected \{"reports"/],
    [{ reports: [7] }, /reports\[0\]: expected an object/],
    [{ reports: [good, { ...good, port: 0 }] }, /reports\[1\]\.port/],
    [{ reports: [{ ...good, port: '9' }] }, /\.port/],
    [{ reports: [{ ...good, address: 'localhost' }] }, /\.address/],
    [{ reports: [{ ...good, address: 'fe80::1%eth0' }] }, /\.address/],
    [{ reports: [{ ...good, failure: 'slow' }] }, /\.failure: expected one of refused/],
    [{ reports: [{ ...good, protocol: 'sctp' }] }, /\.protocol/],
    [{ reports: [{ ...good, service: '' }] }, /\.service/],
    [{ reports: [{ ...good, at: 'now' }] }, /\.at/],
    [{ reports: [{ ...good, colour: 'red' }] }, /unknown key "colour"/],
    [{ reports: Array(51).fill(good) }, /at most 50/],
  ];
  for (const [body, reason] of cases) {
    const reply = await post(one, body);
    t.equal(reply.status, 400, JSON.stringify(body).slice(0, 60));
    t.match(reply.body, { error: reason });
  }
  t.equal((await post(one, { reports: [{ ...good, service: 'x'.repeat(20_000) }] })).status, 413, 'a body over 16 KiB');
  const late = await post(one, {
    reports: [
      { ...good, at: Date.now() - 60_000 },
      { ...good, at: Date.now() },
    ],
  });
  t.same(late.body, { accepted: 1, late: 1, limited: 0 });

  const many = [];
  for (let i = 0; i < 5; i++) many.push(await post(one, { reports: Array(50).fill(good) }));
  t.equal(many[0]?.status, 202);
  const { accepted, limited } = many.at(-1)!.body as { accepted: number; limited: number };
  // What room there is comes back with time, and this may be a slow machine.
  t.ok(limited > 0, 'limited');
  t.equal(accepted + limited, 50);
  t.equal(many.at(-1)?.status, accepted === 0 ? 429 : 202);
  t.equal(resolver.alive, true);
});
