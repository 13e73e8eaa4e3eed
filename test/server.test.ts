/** The transports: one server through its life, its sockets and addresses. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { ListenError } from '../src/server/answer-server.js';
import { COUNTER, CounterTotals } from '../src/server/counters.js';
import { loadLinuxCalls } from '../src/server/linux-calls.js';
import { planSockets } from '../src/server/listen-plan.js';
import { OwnAddresses } from '../src/server/own-addresses.js';
import { decodeProcAddress } from '../src/server/port-holder.js';
import {
  askUdp,
  framed,
  LOOPBACK,
  localhost,
  occupy,
  openDescriptors,
  pause,
  question,
  Served,
  TcpClient,
  until,
  WEB,
} from './server-fixture.js';
import { blast } from './udp-blast.js';

t.setTimeout(120_000);

const TRANSPORTS = ['batched', 'portable'] as const;

/** Sum of some counter words over all threads. */
function totals(served: Served, wanted: (word: number) => boolean): number {
  const all = new CounterTotals();
  for (const counters of served.server.counters()) all.add(counters);
  return all.totals.reduce((sum, n, word) => (wanted(word) ? sum + n : sum), 0);
}

for (const transport of TRANSPORTS) {
  const serve = (t: Test, settings = {}, odd?: string) =>
    new Served(transport, odd).start(t, { transport, ...settings });

  t.test(`${transport}: one server through its life`, async (t) => {
    // The first listener of a process takes a descriptor for good.
    await (await occupy()).release();
    const before = openDescriptors();
    const served = await serve(t, { listen: [LOOPBACK, { address: '::1', port: 0 }] });
    const { server, port } = served;
    const at = localhost(port);
    t.equal(server.transport, transport);
    const asked = 'it is asked for: transport: portable';
    t.equal(server.portableReason, transport === 'portable' ? asked : undefined);

    t.test('UDP and TCP give the same answers, over IPv4 and IPv6', async (t) => {
      for (const { address, port } of [server.listeners()[0]!, server.listeners()[2]!]) {
        const udp = await askUdp({ address, port }, WEB);
        t.match(udp?.answers, [{ type: TYPE.A, address: '10.0.0.1', ttl: 2 }], `UDP on ${address}`);
        const client = new TcpClient({ address, port });
        client.socket.end(framed(WEB));
        const [tcp] = await client.take(1);
        t.same(tcp?.bytes, udp?.bytes, `TCP on ${address} gives the same bytes`);
      }
    });

    t.test('the question comes back in the letters it was asked in (D58)', async (t) => {
      const reply = await askUdp(at, question('WeB.SvC.TeSt', 'A'));
      t.equal(Buffer.from(reply!.bytes.subarray(12, 26)).toString('latin1'), '\x03WeB\x03SvC\x04TeSt\x00');
      t.match(reply?.answers, [{ address: '10.0.0.1' }]);
    });

    t.test('a large answer is cut over UDP and whole over TCP', async (t) => {
      const message = question('crowd.svc.test', 'A');
      const cut = await askUdp(at, message);
      t.match({ tc: cut?.flags.tc, short: cut!.bytes.length <= 512 }, { tc: 1, short: true });
      const client = new TcpClient(at);
      client.socket.end(framed(message));
      t.match(await client.take(1), [{ flags: { tc: 0 }, answers: { length: 60 } }]);
      const many = await askUdp(at, question('crowd.svc.test', 'SRV', 1, 1232));
      t.match(many, { flags: { tc: 1 }, errors: { length: 0 }, opt: { payload: 1232 } });
      const targets = new Set(many?.answers.map((r) => `${r.port} ${r.target?.replace(/\d+\.ip/, 'N.ip')}`));
      t.same([...targets], ['9000 10-0-1-N.ip.svc.test'], 'whole records, however many pieces they lie in');
      t.ok(many!.answers.length > 20);
    });

    t.test('A and AAAA asked at once from one socket, with one id, are both answered (D56)', async (t) => {
      const udpAnswers = () => totals(served, (word) => word === COUNTER.udp);
      const inHistogram = () => totals(served, (word) => word >= COUNTER.latency && word < COUNTER.latencySum);
      const answered = udpAnswers();
      // The last answer before this may be timed after it has left.
      await pause(50);
      const timed = inHistogram();
      const socket = createSocket('udp4');
      const types: Record<number, number> = {};
      socket.on('message', (bytes) => {
        const type = bytes.readUInt16BE(26);
        types[type] = (types[type] ?? 0) + 1;
      });
      const pair = [WEB, question('web.svc.test', 'AAAA')];
      for (let i = 1; i <= 2_000; i++) {
        for (const message of pair) socket.send(message, port, '127.0.0.1');
        if (i % 50 === 0) await until(() => (types[TYPE.A] ?? 0) >= i && (types[TYPE.AAAA] ?? 0) >= i);
      }
      socket.close();
      t.same(types, { [TYPE.A]: 2_000, [TYPE.AAAA]: 2_000 });
      t.equal(udpAnswers() - answered, 4_000);
      await until(() => inHistogram() - timed >= 4_000);
      t.equal(inHistogram() - timed, 4_000, 'each answer is in the latency histogram');
    });

    t.test('no datagram and no byte stream does harm (D13)', async (t) => {
      const flood = createSocket('udp4');
      const client = new TcpClient(at);
      let seed = 1;
      const random = (below: number) => (seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0) % below;
      const messages: Buffer[] = [];
      for (let length = 0; length <= WEB.length; length++) messages.push(WEB.subarray(0, length));
      for (let i = 0; i < 3_000; i++) {
        const bent = Buffer.concat([WEB, Buffer.alloc(random(40), 0xc0)]);
        for (let j = random(6); j >= 0; j--) bent[random(bent.length)] = random(256);
        messages.push(bent);
      }
      messages.push(Buffer.alloc(9_000, 0xff), Buffer.alloc(60_000));
      for (const message of messages) {
        await new Promise((resolve) => flood.send(message, port, '127.0.0.1', resolve));
        if (message.length > 0) client.socket.write(framed(message));
      }
      client.socket.end(framed(WEB));
      await until(() => client.closed);
      flood.close();
      t.match(client.messages().at(-1)?.subarray(0, 2).toString('hex'), '1234', 'TCP answers to the end');
      t.match((await askUdp(at, WEB))?.answers, [{ address: '10.0.0.1' }]);
      t.equal(server.restarts, 0);
      t.equal(server.transportCounters().failures, 0);
    });

    t.test('a control thread that does nothing delays no answer', async (t) => {
      const done = new Int32Array(new SharedArrayBuffer(8));
      const client = new Worker(
        `const { workerData: { done, port, query } } = require('node:worker_threads');
         const socket = require('node:dgram').createSocket('udp4');
         const send = () => socket.send(query, port, '127.0.0.1');
         socket.on('message', () => {
           if (Atomics.add(done, 1, 1) < 99) send();
           else { Atomics.store(done, 0, 1); Atomics.notify(done, 0); socket.close(); }
         });
         send();`,
        { eval: true, workerData: { done, port, query: WEB } },
      );
      const outcome = Atomics.wait(done, 0, 0, 20_000);
      t.not(outcome, 'timed-out', '100 answers came while it was blocked');
      await once(client, 'exit');
    });

    t.test('listen addresses change without closing those that stay', async (t) => {
      const staying = new TcpClient(at);
      staying.socket.write(framed(WEB));
      await staying.take(1);
      await server.setListen([at, { address: '127.0.0.2', port }]);
      t.ok(await askUdp({ address: '127.0.0.2', port }, WEB), 'the new address answers');
      await server.setListen([{ address: '127.0.0.2', port }]);
      t.ok(await askUdp({ address: '127.0.0.2', port }, WEB), 'what stays answers');
      t.equal(await askUdp(at, WEB, 100), undefined, 'what went does not');
      staying.socket.write(framed(WEB));
      t.equal((await staying.take(2)).length, 2, 'connections of an address that went go on');
      staying.socket.destroy();
      for (let i = 0; i < 3; i++) {
        await server.setListen([{ address: '0.0.0.0', port }]);
        await server.setListen([at]);
        const states = server.listeners().map((l) => l.state);
        t.same(states, ['up', 'up'], 'a wildcard and an address under it take turns');
      }
      t.ok(await askUdp(at, WEB));
    });

    t.test('an answer leaves from the address that was asked, on wildcards too (D1)', async (t) => {
      await server.setListen([
        { address: '0.0.0.0', port },
        { address: '::', port },
      ]);
      for (const address of ['127.0.0.1', '::1'])
        t.match((await askUdp({ address, port }, WEB))?.answers, [{ address: '10.0.0.1' }], address);
      const other = await askUdp({ address: '127.0.0.77', port }, WEB, transport === 'batched' ? 3_000 : 200);
      if (transport === 'batched') t.match(other?.answers, [{ address: '10.0.0.1' }], '127.0.0.77');
      else {
        t.equal(other, undefined, 'all of 127.0.0.0/8 cannot be had over node:dgram');
        t.ok(served.events('udp-wildcard-by-address').length > 0, 'and it is said so');
      }
    });

    t.test('one wildcard for both families, with a listed address under it that has a view (R31)', async (t) => {
      await server.setListen([{ address: '::', port }, at]);
      served.world.zone('view.test', [], { listen: [1] });
      const view = question('view.test', 'SOA');
      t.match(await askUdp(at, view), { rcode: 0, answers: { length: 1 } });
      t.match(await askUdp({ address: '::1', port }, view), { rcode: 5 }, 'the view is on its own address only');
      const client = new TcpClient(at);
      client.socket.end(framed(view));
      t.match(await client.take(1), [{ rcode: 0, answers: { length: 1 } }]);
      t.same(
        server.listeners().map((l) => `${l.address} ${l.protocol} ${l.state}`),
        [':: udp up', ':: tcp up', '127.0.0.1 udp up', '127.0.0.1 tcp up'],
      );
    });

    t.test('a thread that dies is replaced', async (t) => {
      const names = ['udp-0', 'tcp'];
      for (const [i, name] of names.entries()) {
        const { worker } = served.workers.filter((w) => w.name === name).at(-1)!;
        const gone = once(worker, 'exit');
        void worker.terminate();
        server.update(served.world.table.share());
        await gone;
        // Batched: the socket lives on, and a query of the meantime waits in it.
        const tries = transport === 'batched' ? 1 : 40;
        let reply: unknown;
        for (let n = 0; n < tries && !reply; n++) reply = await askUdp(at, WEB, 4_000 / tries);
        t.match(reply, { answers: [{ address: '10.0.0.1' }] }, `UDP after the death of ${name}`);
        await until(async () => {
          const client = new TcpClient(at);
          client.socket.end(framed(WEB));
          return (await client.take(1)).length === 1;
        });
        t.equal(server.restarts, i + 1);
      }
      t.equal(served.events('answer-thread-died').length, 2, 'one line a death');
      served.world.zone('later.test');
      await until(async () => (await askUdp(at, question('later.test', 'SOA')))?.answers.length === 1);
    });

    t.test('a stop answers what it was asked before, and gives everything back', async (t) => {
      const socket = createSocket('udp4');
      await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
      let replies = 0;
      socket.on('message', () => replies++);
      const idle = Array.from({ length: 50 }, () => new TcpClient(at));
      const busy = new TcpClient(at);
      await once(busy.socket, 'connect');
      for (let i = 0; i < 200; i++) await new Promise((resolve) => socket.send(WEB, port, '127.0.0.1', resolve));
      await new Promise<void>((resolve) => busy.socket.write(framed(...Array(200).fill(WEB)), () => resolve()));
      await server.stop();
      await until(() => idle.every((c) => c.closed) && busy.closed && replies === 200);
      t.equal(busy.messages().length, 200);
      t.equal(server.transport, 'none');
      t.equal(await askUdp(at, WEB, 50), undefined);
      socket.close();
      await until(() => openDescriptors() <= before);
    });
  });

  t.test(`${transport}: a query that the responder throws on costs nobody else`, async (t) => {
    const served = await serve(t, {}, 'poisoned');
    for (let i = 0; i < 3; i++)
      t.equal(await askUdp(localhost(served.port), question('poison.svc.test', 'A'), 100), undefined);
    t.match((await askUdp(localhost(served.port), WEB))?.answers, [{ address: '10.0.0.1' }]);
    t.equal(served.server.restarts, 0);
    t.equal(served.server.transportCounters().failures, 3);
    t.equal(served.events('answer-failed').length, 1, 'said once');
  });

  t.test(`${transport}: a port that somebody holds`, async (t) => {
    const taken = await occupy();
    const name = readFileSync('/proc/self/comm', 'utf8').trim();
    const place = `127.0.0.1:${taken.at.port}`;
    const who = `is in use by ${name} (pid ${process.pid}): stop it, or give another address or port under "listen"`;
    const alone = new Served(transport);
    const error = await alone.start(t, { transport, listen: [taken.at] }).catch((e: unknown) => e);
    t.ok(error instanceof ListenError, 'is fatal when there is no other');
    const lines = (error as Error).message.split('\n').sort();
    t.same(lines, [`  ${place} (TCP) ${who}`, `  ${place} (UDP) ${who}`, 'cannot listen:']);

    const served = await serve(t, { listen: [taken.at, LOOPBACK] });
    await until(() => served.server.listeners().filter(({ error }) => error?.includes('pid')).length === 2);
    const error0 = `${place} (UDP) ${who}`;
    t.same(served.server.listeners()[0], { ...taken.at, protocol: 'udp', state: 'retrying', error: error0 });
    const other = localhost(served.server.listeners()[2]!.port);
    t.ok(await askUdp(other, WEB), 'another address answers meanwhile');
    await taken.release();
    await until(() => served.server.listeners().every((l) => l.state === 'up'));
    t.ok(await askUdp(taken.at, WEB), 'and it is taken when it is free');
    t.equal(served.events('listen-retrying').length, 2, 'said once a protocol');
  });
}

t.test('our own listeners get no answer', async (t) => {
  const own = new OwnAddresses();
  own.setPlans(planSockets([localhost(53), { address: '127.0.0.3', port: 54 }]));
  t.same(
    [53, 54, 55].map((port) => own.suspect(port)),
    [true, true, false],
  );
  t.equal(own.has('127.0.0.1', 53, 0), true);
  t.equal(own.has('127.0.0.2', 53, 0), false, 'the same port elsewhere is a client');
  own.setPlans(planSockets([{ address: '0.0.0.0', port: 53 }]));
  t.equal(own.has('127.0.0.2', 53, 0), true, 'a wildcard listens on all of loopback');
  t.equal(own.has('127.0.0.2', 54, 0), false);
  t.equal(own.has('203.0.113.9', 53, 0), false);
});

t.test('batched: buffers that the kernel writes to are never collected', async (t) => {
  const served = await new Served('batched', 'collecting').start(t, { transport: 'batched' });
  for (const [name, type] of [
    ['web.svc.test', 'A'],
    ['crowd.svc.test', 'SRV'],
  ] as const) {
    const query = question(name, type);
    const { bytes } = (await askUdp(localhost(served.port), query))!;
    // Weighted records come in another order each time; their places and lengths do not.
    const QUERIES = type === 'A' ? 150_000 : 50_000;
    t.equal(blast(served.port, query, type === 'A' ? bytes : bytes.length, QUERIES), QUERIES, name);
  }
  t.equal(served.server.restarts, 0);
});

t.test('listed addresses become sockets', async (t) => {
  const plan = (...places: string[]) =>
    planSockets(places.map((address) => ({ address, port: 53 }))).map(
      (p) => `${p.listen}:${p.key}${p.covers.map((c) => ` ${c.listen}:${c.address}`).join('')}`,
    );
  t.same(plan('127.0.0.1', '::1'), ['0:127.0.0.1|53|single', '1:::1|53|single']);
  t.same(plan('127.0.0.1', '127.0.0.1'), ['0:127.0.0.1|53|single'], 'a double is one');
  t.same(plan('::'), ['0:::|53|dual']);
  t.same(plan('::', '0.0.0.0'), ['0:::|53|single', '1:0.0.0.0|53|single'], 'beside 0.0.0.0 it is IPv6 alone');
  t.same(plan('10.0.0.1', '0.0.0.0', 'fd00::1'), ['1:0.0.0.0|53|single 0:10.0.0.1', '2:fd00::1|53|single']);
  t.same(plan('10.0.0.1', '::', 'fd00::1'), ['1:::|53|dual 0:10.0.0.1 2:fd00::1']);
});

t.test('addresses of /proc/net', async (t) => {
  t.equal(decodeProcAddress('0100007F'), '127.0.0.1');
  t.equal(decodeProcAddress('00000000000000000000000001000000'), '::1');
  t.equal(decodeProcAddress('0000000000000000FFFF00000100007F'), '127.0.0.1');
  t.equal(decodeProcAddress('xyz'), '');
});

t.test(
  'a shorter turn on the processor leaves a thread its priority',
  { skip: typeof loadLinuxCalls() === 'string' },
  async (t) => {
    const calls = loadLinuxCalls();
    if (typeof calls === 'string') return;
    const before = getPriority();
    t.equal(calls.setslice(3_000_000), 0);
    t.equal(getPriority(), before);
  },
);
