/** R33: the real program with a registry on demand, against a Consul that counts what it is asked, and breaks. */
import { createSocket, type Socket } from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import t, { type Test } from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { FakeConsul } from '../fake-consul.js';
import { type Answer, encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { freePort, Host, type Process, until, ZONE } from './program.js';

t.setTimeout(180_000);

function passing(fake: FakeConsul, service: string, ids: readonly string[]): void {
  for (const id of ids) fake.set(service, { id, node: 'n1', address: `10.0.0.${id}`, port: 80, status: 'passing' });
}

async function host(
  t: Test,
  fake: FakeConsul,
  more: readonly string[] = [],
  top: readonly string[] = [],
): Promise<Host> {
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  configure(host, fake.origin, more, top);
  return host;
}

function configure(host: Host, origin: string, more: readonly string[] = [], top: readonly string[] = []): void {
  const lines = [
    'version: 1',
    `listen: ["127.0.0.1:${host.port}"]`,
    'stateDir: state',
    'runDir: run',
    ...top,
    'zones:',
    `  - name: ${ZONE}`,
    `    registry: { type: consul, address: "${origin}", mirror: asked }`,
    // Commands are waited for without a turn of this process, and so of the fake.
    ...(more.some((line) => line.startsWith('softTtl')) ? [] : ['    softTtl: 2s']),
    '    check: { type: none }',
    ...more.map((line) => `    ${line}`),
  ];
  writeFileSync(host.config, `${lines.join('\n')}\n`);
}

async function fakeConsul(t: Test): Promise<FakeConsul> {
  const fake = await FakeConsul.start();
  t.teardown(() => fake.stop());
  return fake;
}

/** The answer with this code: on a busy machine the first questions may come too early, or their replies too late. */
function answered(host: Host, text: string, rcode = 'NOERROR'): Promise<Answer> {
  return until(`${rcode} for ${text}`, async () => {
    const answer = await host.ask(text);
    return answer.rcode === rcode && answer;
  });
}

/** Runs, and has heard of its registry. */
async function serve(host: Host): Promise<Process> {
  const running = await host.serve();
  await running.said('zone-synced');
  return running;
}

const onDemand = (host: Host) => host.json<StatusDocument>('status').zones[0]!.onDemand!;

for (const transport of ['auto', 'portable']) {
  t.test(`a name is looked up once, whoever asks for whatever of it (${transport})`, async (t) => {
    const fake = await fakeConsul(t);
    passing(fake, 'orders', ['1', '2', '3']);
    const resolver = await host(t, fake, ['softTtl: 60s', 'onDemand: { unknownTtl: 5m }'], [`transport: ${transport}`]);
    await serve(resolver);
    t.match(await answered(resolver, 'orders A'), { rcode: 'NOERROR', answers: [{}, {}, {}], flags: ['aa'], ede: [] });
    t.match(await resolver.ask('orders SRV +tcp'), { answers: [{}, {}, {}] });
    t.match(await resolver.ask('_orders._tcp SRV'), { answers: [{}, {}, {}] });
    t.equal(fake.count(/^health\/service\/orders(?!.*index)/), 1);
    for (const tcp of ['', ' +tcp']) {
      const denied = await answered(resolver, `nope A${tcp}`, 'NXDOMAIN');
      t.match(denied, { rcode: 'NXDOMAIN', flags: ['aa'], ede: [], authorities: [{}] });
    }
    t.equal(fake.count(/^health\/service\/nope/), 1);
    passing(fake, 'orders', ['4']);
    await until('it is watched', async () => (await resolver.ask('orders A')).answers.length === 4);
    t.match(onDemand(resolver), { waiting: 0, unknown: 1, lookUps: { found: 1, unknown: 1, failed: 0 } });
    t.match(resolver.json<Explanation>('explain', `nope.${ZONE}`, 'A'), { outcome: 'nxdomain' });
    const told = resolver.json<Explanation>('explain', `other.${ZONE}`, 'A');
    t.match(told, { outcome: 'look-up' });
    t.match(told.because[0], /looked up in the registry/);
    t.equal(fake.count(/other/), 0, 'to explain is not to ask');
    t.match(resolver.command('status').stdout, /on demand: 2 looked up \(1 found, 1 unknown, 0 failed\)/);
  });
}

t.test('a thousand questions for one new name at once are one request', async (t) => {
  const fake = await fakeConsul(t);
  passing(fake, 'orders', ['1']);
  fake.serviceDelay = 300;
  const resolver = await host(t, fake);
  await serve(resolver);
  const blast = new Blast(resolver.port);
  t.teardown(() => blast.close());
  await blast.open(10);
  for (let i = 0; i < 1000; i++) blast.ask(`orders.${ZONE}`);
  await until('all replies', () => blast.replies.length === 1000);
  const { NOERROR = 0, SERVFAIL = 0 } = blast.rcodes();
  t.equal(NOERROR + SERVFAIL, 1000, 'those who waited for 1.5 s on a busy machine are told so');
  t.ok(NOERROR > 0);
  t.equal(fake.count(/^health\/service\/orders(?!.*index)/), 1);
});

t.test('5000 random names are as many requests as the rate allows, and names that are held go on', async (t) => {
  const fake = await fakeConsul(t);
  passing(fake, 'orders', ['1', '2']);
  const resolver = await host(t, fake, ['softTtl: 60s', 'onDemand: { lookUps: 5 }']);
  await serve(resolver);
  await answered(resolver, 'orders A');
  const began = performance.now();
  const blast = new Blast(resolver.port);
  t.teardown(() => blast.close());
  await blast.open(20);
  for (let i = 0; i < 5000; i++) {
    blast.ask(`r${i}.${ZONE}`);
    if (i % 50 === 49) await new Promise((done) => setImmediate(done));
    if (i % 1000 === 0) t.match(await answered(resolver, 'orders A'), { answers: [{}, {}] });
  }
  await until('the registry to be left alone', () => {
    const { waiting, refused } = onDemand(resolver);
    return waiting === 0 && refused > 1000;
  });
  await until('the replies', () => (blast.rcodes().SERVFAIL ?? 0) > 1000);
  t.match(await answered(resolver, 'orders A'), { answers: [{}, {}], ede: [] });
  const seconds = (performance.now() - began) / 1000;
  const asked = fake.count(/^health\/service\/r\d+/);
  t.ok(asked <= 10 + 5 * seconds + 1, `${asked} requests in ${seconds} s`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} requests in a second`);
  const { SERVFAIL = 0, NXDOMAIN = 0, ...others } = blast.rcodes();
  t.same(others, {});
  t.ok(NXDOMAIN <= asked, 'nothing is denied that the registry was not asked for');
  t.ok(SERVFAIL > 1000);
});

t.test('in an outage a name that is not known fails within 1.5 s, one that is known is answered', async (t) => {
  const fake = await fakeConsul(t);
  passing(fake, 'orders', ['1', '2']);
  const frozen = createServer(() => undefined).listen(0, '127.0.0.1');
  t.teardown(() => frozen.close());
  const resolver = await host(t, fake);
  const running = await serve(resolver);
  await answered(resolver, 'orders A');
  for (const faults of [
    { status: { path: /./, status: 500 } },
    { status: { path: /./, status: 403 } },
    { body: { path: /./, body: '<html>' } },
  ]) {
    fake.faults = faults;
    await until('it is not heard', () => resolver.json<StatusDocument>('status').zones[0]!.heard === false);
    const failed = await until('a reply', () => resolver.ask('new A'));
    t.match(failed, { rcode: 'SERVFAIL', flags: [], ede: [{ code: 22 }], authorities: [] });
    t.match(await answered(resolver, 'orders A'), { answers: [{}, {}] });
    fake.faults = {};
    await until('it is heard again', () => resolver.json<StatusDocument>('status').zones[0]!.heard);
    t.match(await answered(resolver, 'new A', 'NXDOMAIN'), { authorities: [{}] });
  }
  configure(resolver, `http://127.0.0.1:${(frozen.address() as { port: number }).port}`);
  running.kill('SIGHUP');
  await running.said('reloaded');
  const silent = await until('a reply', () => resolver.ask('billing A'));
  t.match(silent, { rcode: 'SERVFAIL', ede: [{ code: 22 }], authorities: [] });
  t.match(await answered(resolver, 'orders A'), { answers: [{}, {}] });
  running.kill('SIGTERM');
  await running.ended;
  const again = await resolver.serve();
  t.match(await answered(resolver, 'orders A'), { answers: [{}, {}] }, 'from the snapshot, after a restart');
  configure(resolver, fake.origin);
  again.kill('SIGHUP');
  await until('news of what the snapshot had', async () => {
    passing(fake, 'orders', ['3']);
    return (await resolver.ask('orders A')).answers.length === 3;
  });
});

/** Questions from several ports, and what came back. */
class Blast {
  readonly replies: Buffer[] = [];
  readonly #sockets: Socket[] = [];
  readonly #port: number;
  #count = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async open(sockets: number): Promise<void> {
    for (let i = 0; i < sockets; i++) {
      const socket = createSocket({ type: 'udp4', recvBufferSize: 1 << 20 });
      socket.on('message', (message) => this.replies.push(message));
      await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done));
      this.#sockets.push(socket);
    }
  }

  ask(name: string): void {
    const query = encodeQuery(this.#count & 0xffff, parseQuestion(`${name}. A`, ''));
    this.#sockets[this.#count++ % this.#sockets.length]!.send(query, this.#port, '127.0.0.1');
  }

  rcodes(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const reply of this.replies) {
      const rcode = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN'][reply[3]! & 15] ?? 'other';
      counts[rcode] = (counts[rcode] ?? 0) + 1;
    }
    return counts;
  }

  close(): void {
    for (const socket of this.#sockets) socket.close();
  }
}
