/** The real program while its registry, its prober, its disk and itself are taken away. */
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { Backend, freePort, Host, until, ZONE } from './program.js';

t.setTimeout(240_000);

type Test = Pick<typeof t, 'teardown'>;

/** A host with two backends listed under `orders`; everything ends with the test. */
async function host(t: Test, zone: readonly string[] = [], top: readonly string[] = []) {
  const one = new Host();
  const backends = [await new Backend().open(), await new Backend().open()];
  t.teardown(async () => {
    await one.dispose();
    for (const backend of backends) await backend.close();
  });
  one.port = await freePort();
  one.configure(zone, top);
  const ports = backends.map((backend) => backend.port).sort((a, b) => a - b);
  one.list({ orders: ports });
  return { host: one, backends, ports };
}

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.join() === b.join();
}

t.test('a known name is answered whatever becomes of the registry file, and after a crash in that state', async (t) => {
  const { host: one, ports } = await host(t);
  let resolver = await one.serve();
  await resolver.said('zone-synced');
  t.same(await one.ports('orders'), ports, 'answered at first');
  await one.saved('orders');

  const ways: [string, () => void][] = [
    ['deleted', () => rmSync(one.registry)],
    ['emptied', () => writeFileSync(one.registry, '')],
    ['without services', () => writeFileSync(one.registry, 'services: {}\n')],
    ['corrupted', () => writeFileSync(one.registry, 'services: {orders: [\u0000\u0001 : }')],
    ['of another shape', () => writeFileSync(one.registry, '[1, 2, 3]\n')],
  ];
  for (const [name, spoil] of ways) {
    spoil();
    await until(`stale or guarded with the file ${name}`, async () => {
      const { rcode, ede, answers } = await one.ask('orders');
      if (rcode !== 'NOERROR' || answers.length !== 2) throw new Error(`${rcode}, ${answers.length} answers`);
      return ede.some((told) => told.code === 3);
    });
    resolver.kill('SIGKILL');
    t.equal(await resolver.ended, 'SIGKILL');
    resolver = await one.serve();
    t.same(await one.ports('orders'), ports, `the first question after a crash with the file ${name}`);
    t.equal((await one.ask('nope')).rcode, 'NXDOMAIN', 'and an unlisted name does not exist');
    rmSync(one.registry, { recursive: true, force: true });
  }

  one.list({ orders: ports, billing: [ports[0]!] });
  await until('the registry heard again', async () => (await one.ask('billing')).answers.length === 1);
});

const noFifo = spawnSync('mkfifo', ['--version']).error && 'no mkfifo here to make a file whose reading never ends';
t.test('a registry file on a disk that hangs changes nothing', { skip: noFifo ?? false }, async (t) => {
  const { host: one, ports } = await host(t);
  let resolver = await one.serve();
  await resolver.said('zone-synced');
  await one.saved('orders');
  rmSync(one.registry);
  spawnSync('mkfifo', [one.registry]);
  await until('staleness', async () => (await one.ask('orders')).ede.some((told) => told.code === 3));
  t.same(await one.ports('orders'), ports);
  resolver.kill('SIGKILL');
  await resolver.ended;
  resolver = await one.serve();
  t.same(await one.ports('orders'), ports);
  resolver.kill('SIGTERM');
  await resolver.ended;
});

t.test('a dead backend leaves the answers and comes back, with the registry gone', async (t) => {
  const { host: one, backends, ports } = await host(t);
  const resolver = await one.serve();
  one.probe();
  await resolver.said('zone-synced');
  rmSync(one.registry);
  await until('staleness', async () => (await one.ask('orders')).ede.some((told) => told.code === 3));
  t.same(await one.ports('orders'), ports);
  const [first] = backends;
  const rest = ports.filter((port) => port !== first!.port);
  await first!.close();
  await until('the dead one gone', async () => same(await one.ports('orders'), rest));
  await first!.open();
  await until('the live one back', async () => same(await one.ports('orders'), ports));
  for (const backend of backends) await backend.close();
  await until('the floor', () => one.json<StatusDocument>('status').zones[0]?.floor.includes('orders') ?? false);
  t.same(await one.ports('orders'), ports, 'when all are dead, all are answered');
});

t.test('a prober that hangs or dies loses its word, and finds it again', async (t) => {
  const { host: one, backends, ports } = await host(t);
  const resolver = await one.serve();
  let prober = one.probe();
  await resolver.said('zone-synced');
  const [first] = backends;
  const rest = ports.filter((port) => port !== first!.port);
  await first!.close();
  await until('the dead one gone', async () => same(await one.ports('orders'), rest));
  await one.saved('"fails"');
  resolver.kill('SIGKILL');
  await resolver.ended;
  await one.serve();
  t.same(await one.ports('orders'), rest, 'what was dead before a crash of the resolver is not answered after it');
  prober.kill('SIGSTOP');
  await until('its word run out', async () => same(await one.ports('orders'), ports));
  prober.kill('SIGCONT');
  await until('its word again', async () => same(await one.ports('orders'), rest));
  prober.kill('SIGKILL');
  await until('its word run out', async () => same(await one.ports('orders'), ports));
  prober = one.probe();
  await until('the word of another', async () => same(await one.ports('orders'), rest));
  t.ok(prober.alive);
});

t.test('the prober has its say wherever its socket was, and whoever else was there', async (t) => {
  const { host: one, backends, ports } = await host(t);
  const run = join(one.folder, 'run');
  writeFileSync(run, 'in the way');
  const resolver = await one.serve();
  await resolver.said('prober-socket-unavailable');
  rmSync(run);
  mkdirSync(run);
  await until('all sockets', () => readdirSync(run).join() === 'control.sock,prober.sock,public.sock');
  await until('no such problem', () => !/sock/.test(one.json<StatusDocument>('status').problems.join()));
  const older = one.probe();
  const [first] = backends;
  const rest = ports.filter((port) => port !== first!.port);
  await first!.close();
  await until('the dead one gone', async () => same(await one.ports('orders'), rest));
  await first!.open();
  await until('the live one back', async () => same(await one.ports('orders'), ports));

  renameSync(run, join(one.folder, 'swept'));
  rmSync(join(one.folder, 'swept'), { recursive: true });
  const newer = one.probe();
  await older.said('standing-by');
  await first!.close();
  await until('the dead one gone', async () => same(await one.ports('orders'), rest));
  newer.kill('SIGKILL');
  await newer.ended;
  await first!.open();
  await until('the word of the older one', async () => same(await one.ports('orders'), ports));
  await first!.close();
  await until('its word again', async () => same(await one.ports('orders'), rest));
  t.same(
    older.events().map((line) => line.event),
    ['resolver-connected', 'standing-by', 'resolver-connected'],
  );
  resolver.kill('SIGTERM');
  t.equal(await resolver.ended, 0);
  t.notOk(existsSync(join(run, 'prober.sock')), 'a stop removes what it opened');
});

t.test('a damaged snapshot is set aside and the one before it is used', async (t) => {
  const { host: one, ports } = await host(t);
  let resolver = await one.serve();
  await resolver.said('zone-synced');
  const folder = join(one.folder, 'state', 'snapshots');
  await one.saved('orders');
  resolver.kill('SIGTERM');
  t.equal(await resolver.ended, 0);
  one.list({ orders: ports, billing: [ports[0]!] });
  resolver = await one.serve();
  await until('the new list', async () => (await one.ask('billing')).answers.length === 1);
  await one.saved('billing');
  resolver.kill('SIGTERM');
  t.equal(await resolver.ended, 0);
  rmSync(one.registry);
  const newest = readdirSync(folder).find((name) => name.endsWith('.snapshot'))!;
  const bytes = readFileSync(join(folder, newest));
  bytes[bytes.length >> 1]! ^= 0xff;
  writeFileSync(join(folder, newest), bytes);
  resolver = await one.serve();
  t.same(await one.ports('orders'), ports);
  const problems = resolver.events().filter((line) => line.event === 'snapshot-problem');
  t.equal(problems.length, 1, 'one clear line');

  resolver.kill('SIGKILL');
  await resolver.ended;
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), 'not a snapshot');
  await one.serve();
  t.equal((await one.ask('orders')).rcode, 'SERVFAIL', 'with none left, it says that it does not know');
  t.same(
    (await one.ask('orders')).ede.map((told) => told.code),
    [14],
  );
});

t.test('a reload takes good settings, refuses bad ones, and loses nothing', async (t) => {
  const { host: one, ports } = await host(t);
  const resolver = await one.serve();
  await one.saved('orders');
  rmSync(one.registry);
  one.configure(['answerTtl: 7s']);
  resolver.kill('SIGHUP');
  await until('the new TTL', async () => (await one.ask('orders')).answers.every((rr) => rr.ttl === 7));
  one.configure(['answerTtl: 7s', `listen: ["127.0.0.1:${one.port}"]`]);
  resolver.kill('SIGHUP');
  await until('the second reload', () => resolver.events().filter((line) => line.event === 'reloaded').length === 2);
  t.same(await one.ports('orders'), ports, 'a zone tied to an address is still the same zone');
  one.configure(['answerTtl: sometimes']);
  resolver.kill('SIGHUP');
  await until('the refusal', () => resolver.events().some((line) => String(line.event).startsWith('reload-')));
  const { answers } = await one.ask('orders');
  t.same([answers.length, answers[0]?.ttl], [2, 7], 'what was in force stays');
  t.same(await one.ports('orders'), ports);

  const bad = one.command('check');
  t.equal(bad.code, 2);
  t.match(bad.stderr + bad.stdout, /holdfast\.yaml:\d+.*answerTtl/, 'file, line and key');
  resolver.kill('SIGKILL');
  await resolver.ended;
  const refused = one.run('serve', '--config', one.config);
  t.equal(await refused.ended, 2, 'a bad configuration ends a start');
  const lastGood = await one.serve('--last-good');
  t.same(await one.ports('orders'), ports, 'and --last-good serves on');
  lastGood.kill('SIGTERM');
  t.equal(await lastGood.ended, 0);
});

t.test('a port in use is named with its holder', async (t) => {
  const { host: one } = await host(t);
  const holder = createServer().listen(one.port, '127.0.0.1');
  t.teardown(() => holder.close());
  const socket = createSocket('udp4');
  await new Promise<void>((done) => socket.bind(one.port, '127.0.0.1', done));
  t.teardown(() => socket.close());
  const resolver = one.run('serve', '--config', one.config);
  t.not(await resolver.ended, 0);
  t.match(resolver.output, new RegExp(`127\\.0\\.0\\.1.*${one.port}`));
});

t.test('hostile clients change nothing', async (t) => {
  const { host: one, ports } = await host(t);
  const resolver = await one.serve();
  await resolver.said('zone-synced');
  const query = encodeQuery(9, parseQuestion('_orders._tcp', ZONE));
  const socket = createSocket('udp4');
  socket.on('error', () => {});
  const send = (bytes: Uint8Array) =>
    new Promise<void>((done) => socket.send(bytes, one.port, '127.0.0.1', () => done()));
  for (let length = 0; length <= query.length; length++) await send(query.subarray(0, length));
  let random = 12_345;
  const next = () => (random = (random * 1_103_515_245 + 12_345) & 0x7fffffff);
  for (let round = 0; round < 20_000; round++) {
    const mutant = Uint8Array.from(query);
    for (let flips = next() % 4; flips >= 0; flips--) mutant[next() % mutant.length] = next() & 255;
    if (round % 3 === 0) socket.send(mutant, one.port, '127.0.0.1');
    else await send(mutant);
  }
  const pointers = Uint8Array.from([...query.subarray(0, 12), 0xc0, 0x0c, 0, 1, 0, 1]);
  await send(pointers);
  socket.close();
  t.same(await one.ports('orders'), ports, 'after 20,000 mutants');

  for (let round = 0; round < 300; round++) {
    await new Promise<void>((done) => {
      const client = connect(one.port, '127.0.0.1', () => {
        if (round % 4 > 0) client.write(Uint8Array.from([0, query.length]));
        if (round % 4 > 1) client.write(query.subarray(0, round % 4 === 2 ? 9 : query.length));
        client.resetAndDestroy();
      });
      client.on('error', () => {});
      client.on('close', () => done());
    });
  }
  t.same(await one.ports('orders +tcp'), ports, 'after 300 connections that were reset');

  const pair = ['orders A', 'orders AAAA'].map((text, id) => encodeQuery(id + 1, parseQuestion(text, ZONE)));
  const replies = await one.tcp(pair, 2);
  t.same(
    replies.map((reply) => reply[1]).sort(),
    [1, 2],
    'two queries in one segment before a half-close: two replies',
  );
  const many = Array.from({ length: 50 }, (_, id) => encodeQuery(id, parseQuestion('orders', ZONE)));
  t.equal((await one.tcp(many, 50)).length, 50, 'and fifty');
  t.same((await one.ask('OrDeRs')).rcode, 'NOERROR', "the client's case comes back as it was");
  t.ok(resolver.alive, 'the same process all along');
});

t.test('a stop is clean, and what the commands say is true', async (t) => {
  const { host: one, backends, ports } = await host(t);
  const resolver = await one.serve();
  one.probe();
  await resolver.said('zone-synced');
  const down = backends[0]!.port;
  await backends[0]!.close();
  await until('the dead one gone', async () =>
    same(
      await one.ports('orders'),
      ports.filter((port) => port !== down),
    ),
  );

  const status = one.json<StatusDocument>('status');
  t.equal(status.zones[0]?.name, ZONE);
  t.equal(status.zones[0]?.state, 'fresh');
  t.equal(status.zones[0]?.answered, 1);
  t.equal(status.zones[0]?.heldBack, 1);
  t.equal(status.prober.state, 'ok');
  const explained = one.json<Explanation>('explain', `orders.${ZONE}`, 'SRV');
  t.same(
    explained.endpoints.map((each) => [each.port, each.word, each.probe, each.answered]),
    ports.map((port) => [port, 'listed', port === down ? 'fails' : 'passes', port !== down]),
  );
  const asked = one.command('query', `orders.${ZONE}`, 'SRV', '--json');
  t.equal(asked.code, 0);
  t.match(asked.stdout, new RegExp(String(ports.find((port) => port !== down))));
  t.equal(one.command('check').code, 0);

  resolver.kill('SIGTERM');
  t.equal(await resolver.ended, 0);
  t.notMatch(resolver.output, /Error:|Warning:/);
  const names = readdirSync(join(one.folder, 'state', 'snapshots'));
  t.same(
    names.filter((name) => name.includes('tmp')),
    [],
    'no half-written file is left',
  );
});

const noDig = spawnSync('dig', ['-v']).error && 'no dig here (Debian: bind9-dnsutils)';
t.test('what dig sees is what the codec sees', { skip: noDig ?? false }, async (t) => {
  const { host: one, ports } = await host(t);
  const resolver = await one.serve();
  await resolver.said('zone-synced');
  const dig = (...args: string[]) =>
    spawnSync('dig', ['@127.0.0.1', '-p', String(one.port), '+time=2', '+tries=1', '+norec', ...args], {
      encoding: 'utf8',
    }).stdout;
  const srv = ports.map((port) => `0 1 ${port} 127-0-0-1.ip.${ZONE}.`);
  for (const how of ['+notcp', '+tcp', '+noedns', '+bufsize=512']) {
    t.same(dig('+short', how, `_orders._tcp.${ZONE}`, 'SRV').trim().split('\n').sort(), srv, how);
  }
  t.equal(dig('+short', `127-0-0-1.ip.${ZONE}`, 'A').trim(), '127.0.0.1');
  t.match(dig(`orders.${ZONE}`, 'AAAA'), /status: NOERROR[\s\S]*AUTHORITY SECTION[\s\S]*SOA/);
  t.match(dig(`nope.${ZONE}`, 'A'), /status: NXDOMAIN/);
  t.match(dig('example.com', 'A'), /status: REFUSED/);
  t.match(dig('+edns=1', '+noednsneg', `orders.${ZONE}`, 'A'), /status: BADVERS/);
  rmSync(one.registry);
  await until('staleness', () => /EDE: 3 /.test(dig(`orders.${ZONE}`, 'A')));
});

t.test('a registry file that is replaced by rename is read whole', async (t) => {
  const { host: one, ports } = await host(t);
  const resolver = await one.serve();
  await resolver.said('zone-synced');
  const next = join(one.folder, 'next.yaml');
  for (let round = 0; round < 5; round++) {
    one.list({ orders: ports, [`round-${round}`]: [ports[0]!] });
    renameSync(one.registry, next);
    writeFileSync(one.registry, readFileSync(next));
    renameSync(next, one.registry);
    await until(`round ${round}`, async () => (await one.ask(`round-${round}`)).answers.length === 1);
    t.same(await one.ports('orders'), ports);
  }
});
