import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import t from 'tap';
import { EDE, RCODE } from '../src/dns/constants.js';
import type { AnswerForeign } from '../src/server/answer-server.js';
import { COUNTER, CounterTotals } from '../src/server/counters.js';
import { HandoverReader, HandoverWriter, handoverMemory, NO_ENVELOPE } from '../src/server/handover.js';
import { decode, type Reply } from './answers-fixture.js';
import { a, say } from './forward-fixture.js';
import { askUdp, framed, LOOPBACK, question, Served, TcpClient, until } from './server-fixture.js';

const LOCAL = ['127.0.0.0/8', '::1/128'];
const WEB = question('web.svc.test', 'A');
const OTHER = question('Other.Example', 'A', 0x4321, 1232);
/** A reply of the control thread that tests can tell: the query with QR and a rcode of its own. */
const echo = (query: Uint8Array): Uint8Array => {
  const reply = Uint8Array.from(query);
  reply[2]! |= 0x80;
  reply[3]! |= 0x0a;
  return reply;
};
function totals(served: Served, word: number): number {
  const all = new CounterTotals();
  for (const counters of served.server.counters()) all.add(counters);
  return all.totals[word]!;
}

for (const transport of ['batched', 'portable'] as const) {
  t.test(`${transport}: questions that no zone owns are answered by the control thread`, async (t) => {
    let answer: AnswerForeign = ({ query }, reply) => reply(echo(query));
    const forward = { allow: LOCAL, answer: ((q, reply) => answer(q, reply)) as AnswerForeign };
    const served = await new Served(transport).start(t, {
      transport,
      forward,
      listen: [LOOPBACK, { address: '::1', port: 0 }],
    });
    const { server } = served;
    const at = { address: '127.0.0.1', port: served.port };

    t.test('over UDP and TCP, IPv4 and IPv6, with the id and the letters of the question', async (t) => {
      for (const { address, port } of [server.listeners()[0]!, server.listeners()[2]!]) {
        const reply = await askUdp({ address, port }, OTHER);
        t.same(Buffer.from(reply!.bytes), Buffer.from(echo(OTHER)), `UDP on ${address}`);
        const client = new TcpClient({ address, port });
        client.socket.end(framed(OTHER));
        t.same(
          (await client.take(1)).map(({ bytes }) => Buffer.from(bytes)),
          [Buffer.from(echo(OTHER))],
          `TCP on ${address}, after the client closed its side`,
        );
      }
    });

    t.test('names of zones are answered as before, with RA (R26)', async (t) => {
      t.match(await askUdp(at, WEB), { flags: { aa: 1, ra: 1 }, answers: [{ address: '10.0.0.1' }] });
      t.match(await askUdp(at, question('nothing.svc.test', 'A')), { rcode: RCODE.NXDOMAIN, flags: { aa: 1, ra: 1 } });
    });

    t.test('a client that may not forward is refused, and gets no RA', async (t) => {
      server.setForward({ ...forward, allow: ['10.0.0.0/8'] });
      await until(async () => (await askUdp(at, OTHER))?.rcode === RCODE.REFUSED);
      t.match(await askUdp(at, WEB), { flags: { ra: 0 }, answers: [{ address: '10.0.0.1' }] });
      server.setForward(undefined);
      t.match(await askUdp(at, OTHER), {
        rcode: RCODE.REFUSED,
        flags: { ra: 0 },
        ede: { code: EDE.NOT_AUTHORITATIVE },
      });
      server.setForward(forward);
      await until(async () => (await askUdp(at, OTHER))?.rcode === 10);
    });

    t.test('what was handed over when forwarding ends is refused, as what comes then is (R26)', async (t) => {
      const socket = createSocket('udp4');
      t.teardown(() => socket.close());
      socket.connect(at.port, at.address);
      await once(socket, 'connect');
      const client = new TcpClient(at);
      await once(client.socket, 'connect');
      const replies: Reply[] = [];
      socket.on('message', (bytes) => replies.push(decode(bytes)));
      // Sent at once; the threads have handed both over before this thread turns.
      socket.send(question('late.example', 'A', 7, 1232));
      client.socket.write(framed(question('late.example', 'A', 8)));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      server.setForward(undefined);
      await until(() => replies.length > 0);
      t.match(replies, [{ rcode: RCODE.REFUSED, flags: { ra: 0, aa: 0 }, ede: { code: EDE.NOT_AUTHORITATIVE } }]);
      t.match(await client.take(1), [{ rcode: RCODE.REFUSED, flags: { ra: 0 } }]);
      client.socket.destroy();
      server.setForward(forward);
      await until(async () => (await askUdp(at, OTHER))?.rcode === 10);
    });

    t.test('over TCP, what is known does not wait for what is not (D16)', async (t) => {
      const waiting: (() => void)[] = [];
      answer = ({ query }, reply) => waiting.push(() => reply(echo(query)));
      const client = new TcpClient(at);
      const second = question('second.example', 'A', 2);
      client.socket.write(framed(question('first.example', 'A', 1), second, question('web.svc.test', 'A', 3)));
      t.match(
        (await client.take(1)).map((r) => r.bytes[1]),
        [3],
      );
      await until(() => waiting.length === 2);
      waiting[1]!();
      t.match(
        (await client.take(2)).map((r) => r.bytes[1]),
        [3, 2],
      );
      client.socket.end();
      waiting[0]!();
      t.match(
        (await client.take(3)).map((r) => r.bytes[1]),
        [3, 2, 1],
      );
      await until(() => client.closed);
    });

    t.test('a flood of them is bounded, for a client and in all, and held names are answered in it', async (t) => {
      const waiting: (() => void)[] = [];
      answer = ({ query }, reply) => waiting.push(() => reply(echo(query)));
      const full = () => server.transportCounters().handoverFull;
      const before = full();
      const client = new TcpClient(at);
      // A hundred are under way on a connection, then it is not read any further.
      for (let i = 0; i < 300; i++) client.socket.write(framed(OTHER));
      await until(() => waiting.length >= 100);
      t.equal(waiting.length, 100);
      const socket = createSocket('udp4');
      for (let i = 0; i < 1_000; i++) await new Promise((resolve) => socket.send(OTHER, at.port, at.address, resolve));
      await until(() => full() - before === 1_000 - 256 && waiting.length >= 100 + 256);
      t.equal(waiting.length, 100 + 256, 'one client has 256 at most');
      t.match(await askUdp(at, WEB), { answers: [{ address: '10.0.0.1' }] });
      const more = Array.from({ length: 8 }, () => createSocket('udp4'));
      for (const one of more)
        for (let i = 0; i < 256; i++) await new Promise((resolve) => one.send(OTHER, at.port, at.address, resolve));
      await until(() => waiting.length + full() - before >= 100 + 1_000 + 8 * 256);
      t.equal(waiting.length, 100 + 1_024, 'all UDP clients together 1024');
      t.match(await askUdp(at, WEB), { answers: [{ address: '10.0.0.1' }] });
      answer = ({ query }, reply) => reply(echo(query));
      for (const reply of waiting) reply();
      await client.take(300);
      t.equal(client.messages().length, 300, 'the connection goes on when there is room');
      t.equal((await askUdp(at, OTHER))?.rcode, 10, 'and so does UDP');
      client.socket.destroy();
      for (const one of [socket, ...more]) one.close();
    });

    t.test('what is asked for often, the thread answers by itself until it is told otherwise', async (t) => {
      const asked: string[] = [];
      const kept = say(question('kept.example', 'A'), {
        answers: [a('192.0.2.1', 300)],
        authorities: [a('192.0.2.2', 7)],
      });
      answer = ({ query, transport }, reply) => {
        asked.push(transport);
        const ttls = Uint16Array.of(36, 52);
        const flags = { dnssecOk: false, checkingDisabled: false, authenticData: true };
        const times = { age: 10, dueMs: 60_000, freshMs: 60_000, aloneMs: 60_000, outageMs: 60_000, group: 0 };
        reply(echo(query), { message: kept, ttls, ...flags, ...times });
      };
      const ask = (edns = true) => askUdp(at, question('Kept.Example', 'A', 9, edns ? 1232 : undefined));
      t.equal((await ask())?.rcode, 10);
      await until(async () => (await ask())?.rcode === 0);
      const [before, keptBefore] = [asked.length, totals(served, COUNTER.forwardKept)];
      t.match(await ask(), {
        rcode: 0,
        flags: { ra: 1, aa: 0, ad: 0, rd: 1 },
        answers: [{ name: 'Kept.Example', address: '192.0.2.1', ttl: 290 }],
        authorities: [{ ttl: 0 }],
        opts: 1,
      });
      t.match(await ask(false), { rcode: 0, answers: [{ ttl: 290 }], opts: 0 });
      t.equal(asked.length, before, 'the control thread is not asked any more');
      t.equal(totals(served, COUNTER.forwardKept) - keptBefore, 2);
      server.setForward(forward);
      await until(async () => (await ask())?.rcode === 10);
      const client = new TcpClient(at);
      await until(async () => {
        const { length } = client.messages();
        client.socket.write(framed(question('kept.example', 'A')));
        return (await client.take(length + 1)).at(-1)?.rcode === 0;
      });
      t.match(decode(client.messages().at(-1)!).answers, [{ address: '192.0.2.1' }], 'over TCP, too');
      client.socket.destroy();
    });

    t.test('a thread that dies loses what was in flight at most', async (t) => {
      const waiting: (() => void)[] = [];
      answer = ({ query }, reply) => waiting.push(() => reply(echo(query)));
      const reply = askUdp(at, OTHER, 20_000);
      await until(() => waiting.length === 1);
      const { worker } = served.workers.find(({ name }) => name === 'udp-0')!;
      const died = served.events('answer-thread-died').length;
      const ended = worker.terminate();
      // A native loop notices when something comes.
      await until(async () => {
        await askUdp(at, WEB, 50);
        return served.events('answer-thread-died').length > died;
      });
      await ended;
      await until(async () => (await askUdp(at, WEB, 200)) !== undefined);
      waiting[0]!();
      if (transport === 'batched') t.equal((await reply)?.rcode, 10, 'its socket lives on, so the reply leaves');
      answer = ({ query }, reply) => reply(echo(query));
      t.equal((await askUdp(at, OTHER))?.rcode, 10, 'the next thread hands over, too');
    });
  });

  t.test(`${transport}: on a wildcard the reply leaves from the address that was asked`, async (t) => {
    const answer: AnswerForeign = ({ query }, reply) => setImmediate(() => reply(echo(query)));
    const listen = [{ address: '0.0.0.0', port: 0 }];
    const served = await new Served(transport).start(t, { transport, listen, forward: { allow: LOCAL, answer } });
    const address = transport === 'batched' ? '127.0.0.77' : '127.0.0.1';
    t.equal((await askUdp({ address, port: served.port }, OTHER))?.rcode, 10);
  });
}

t.test('the ring gives out what was put in, over its end and over the wrap of its positions', async (t) => {
  const memory = handoverMemory();
  memory.head.fill(-4096, 0, 2);
  const writer = new HandoverWriter(memory);
  const reader = new HandoverReader(memory);
  const peer = { family: 4, bytes: Uint8Array.of(10, 1, 2, 3), offset: 0 } as const;
  t.ok(reader.sleep());
  let wrong = 0;
  for (let i = 0; i < 20_000; i++) {
    const query = Buffer.alloc(1 + ((i * 7919) % 1_500), i & 255);
    const token = writer.put(query, query.length, peer, 53, i & 0xffff, i % 3 === 0 ? 'tcp' : 'udp', NO_ENVELOPE);
    if (writer.mustWake() !== (i % 100 === 0)) wrong++;
    const taken = reader.take();
    if (taken === undefined || taken.token !== token || !query.equals(taken.query)) wrong++;
    else if (taken.listen !== (i & 0xffff) || taken.transport !== (i % 3 === 0 ? 'tcp' : 'udp')) wrong++;
    else reader.done(taken);
    if (i % 100 === 99 && (reader.take() !== undefined || !reader.sleep())) wrong++;
  }
  t.equal(wrong, 0);
  let put = 0;
  const large = Buffer.alloc(4_000);
  while (
    writer.put(large, large.length, { ...peer, bytes: Uint8Array.of(10, 1, put, 3) }, 53, 0, 'udp', NO_ENVELOPE) !== 0
  )
    put++;
  t.ok(put > 50 && put < 70, 'full is full');
});
