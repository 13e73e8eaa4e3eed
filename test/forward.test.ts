import { spawn, spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../src/config/load.js';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { composeReply } from '../src/forward/compose.js';
import { readQuestion } from '../src/forward/question.js';
import { readResolvConf } from '../src/forward/resolv-conf.js';
import { belongsTo, encodeUpstreamQuery, readReply } from '../src/forward/upstream-message.js';
import { ForwardLink } from '../src/resolver/forward-link.js';
import type { AnswerForeign } from '../src/server/answer-server.js';
import { COUNTER, CounterTotals } from '../src/server/counters.js';
import { HandoverReader, HandoverWriter, handoverMemory, NO_ENVELOPE } from '../src/server/handover.js';
import { BootClock } from '../src/system/boot-clock.js';
import { decode, type Reply } from './answers-fixture.js';
import { a, type Behaviour, Client, FakeUpstream, nobody, type Rec, say, soa } from './forward-fixture.js';
import { askUdp, framed, LOOPBACK, pause, question, Served, TcpClient, until } from './server-fixture.js';

const upstream = (t: Test, behave: Behaviour, options?: { tcp?: boolean }) =>
  new FakeUpstream(behave).start(t, options);
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
const option = (code: number, text: string) =>
  Buffer.from([code >> 8, code & 255, 0, text.length, ...Buffer.from(text)]);
const OPTION = { cookie: 10, nsid: 3, ede: 15 };

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

t.test('what an upstream says comes through as it is', async (t) => {
  const rdata = Uint8Array.from({ length: 200 }, (_, i) => i);
  const server = await upstream(t, ({ type, name }) => {
    if (type === TYPE.A)
      return {
        answers: [a('192.0.2.1'), a('192.0.2.2')],
        ad: true,
        authorities: [{ type: TYPE.NS, rdata: Uint8Array.of(0xc0, 0x0c) }],
      };
    if (name === 'opt.example')
      return {
        answers: [{ type, rdata }],
        options: Buffer.concat([
          option(OPTION.nsid, 'me'),
          option(OPTION.cookie, 'cookie!!'),
          option(OPTION.ede, '\x00\x04hi'),
        ]),
      };
    return { answers: [{ type, rdata }] };
  });
  const client = new Client(t, [server.at]);

  const reply = await client.ask('WwW.Example', 'A', { edns: { dnssecOk: true, payload: 4096 } });
  t.match(reply, {
    rcode: 0,
    flags: { aa: 0, ra: 1, rd: 1, ad: 1 },
    opt: { payload: 1232, dnssecOk: true },
    errors: [],
  });
  t.same(
    reply.answers.map(({ address, ttl }) => `${address} ${ttl}`),
    ['192.0.2.1 300', '192.0.2.2 300'],
  );
  t.match(reply.authorities, [{ ns: 'WwW.Example' }], 'names point to where they did');
  t.equal(
    Buffer.from(reply.bytes.subarray(12, 25)).toString('latin1'),
    '\x03WwW\x07Example\0',
    'the question in its letters',
  );
  t.equal((await client.ask('www.example', 'A')).flags.ad, 0, 'AD is for those who ask for it (RFC 6840 s.5.8)');

  const unknown = await client.ask('u.example', 65_280, { tcp: true });
  t.same(unknown.bytes.slice(-200), rdata, 'a type that nobody knows');
  const svcb = await client.ask('u.example', 65);
  t.same(svcb.bytes.slice(-200), rdata, 'HTTPS');
  t.equal(svcb.opts, 0, 'no OPT in, no OPT out');

  const passed = {
    edns: {
      options: [
        { code: 8, data: Buffer.from([0, 1, 24, 0, 192, 0, 2]) },
        { code: 10, data: Buffer.alloc(8) },
      ],
    },
  };
  const first = await client.ask('opt.example', 99, passed);
  const { bytes } = server.heard.at(-1)!;
  t.equal(
    bytes.subarray(-11).toString('hex'),
    '00080007000118' + '00c00002',
    'client subnet goes along, the cookie does not',
  );
  t.equal(bytes.readUInt16BE(bytes.length - 19), 1232, 'we take 1232 octets');
  t.equal(
    Buffer.from(first.bytes.slice(-14)).toString('latin1'),
    '\0\x03\0\x02me\0\x0f\0\x04\0\x04hi',
    'its options come back, its cookie does not',
  );
  await client.ask('opt.example', 99, passed);
  t.equal(
    server.heard.filter(({ name }) => name === 'opt.example').length,
    2,
    "one client's network is not another's: not kept",
  );
  t.match(await client.ask('opt.example', 99, { edns: {} }), { ede: { code: 4, text: 'hi' } });
  t.match(
    await client.ask('opt.example', 99, { edns: {} }),
    { opts: 1, ede: undefined },
    'nothing of an OPT record is kept',
  );

  const flags = server.heard
    .filter(({ name }) => name.toLowerCase() === 'www.example')
    .map((h) => h.bytes.subarray(2, 4).toString('hex') + (h.bytes.at(-4)! & 0x80).toString(16));
  t.same(flags, ['012080', '01200'], 'RD and AD; DO as asked');
  await client.ask('www.example', 'A', { checkingDisabled: true });
  t.equal(server.heard.at(-1)!.bytes.subarray(2, 4).toString('hex'), '0130', 'CD as asked, and an answer of its own');
  t.same(new Set(server.heard.map(({ port }) => port)).size, server.heard.length, 'a port for each question');
  t.ok(new Set(server.heard.map(({ bytes }) => bytes.readUInt16BE(0))).size > server.heard.length / 2, 'ids by chance');
});

t.test('only a reply to what was asked, from who was asked, counts', async (t) => {
  const server = await upstream(t, () => undefined);
  server.behave = ({ bytes, port }) => {
    const real = (bytes[0]! << 8) | bytes[1]!;
    server.send(say(bytes, { answers: [a('6.6.6.1')], id: real ^ 1 }), port);
    server.send(
      say(bytes, { answers: [a('6.6.6.2')], question: Buffer.from('\x03bad\x07example\0\0\x01\0\x01', 'latin1') }),
      port,
    );
    server.send(bytes, port);
    server.send(Buffer.from('short'), port);
    server.sendFromElsewhere(say(bytes, { answers: [a('6.6.6.3')] }), port);
    setTimeout(() => server.send(say(bytes, { answers: [a('192.0.2.1')] }), port), 50);
    return undefined;
  };
  const client = new Client(t, [server.at]);
  t.match((await client.ask('x.example', 'A')).answers, [{ address: '192.0.2.1' }]);
  t.equal(client.forwarder.groups()[0]!.group.upstreams[0]!.forged, 4);
});

t.test('where somebody guesses at replies, the question goes by TCP', async (t) => {
  const server = await upstream(t, ({ via }) => (via === 'tcp' ? { answers: [a('192.0.2.1')] } : undefined));
  const behave = server.behave;
  server.behave = (heard) => {
    const { bytes, port, via } = heard;
    if (via === 'tcp') return behave(heard);
    const real = (bytes[0]! << 8) | bytes[1]!;
    for (let i = 1; i <= 16; i++) server.send(say(bytes, { answers: [a('6.6.6.1')], id: (real + i) & 0xffff }), port);
    // Then the one who guesses is right: too late.
    server.send(say(bytes, { answers: [a('6.6.6.2')] }), port);
    return undefined;
  };
  const client = new Client(t, [server.at]);
  t.match((await client.ask('x.example', 'A')).answers, [{ address: '192.0.2.1' }]);
  t.same(
    server.heard.map(({ via }) => via),
    ['udp', 'tcp'],
  );
});

t.test('an upstream that does not answer is passed over, and never the last', async (t) => {
  let frozen = true;
  const slow = await upstream(t, () => (frozen ? undefined : { answers: [a('192.0.2.1')] }));
  const well = await upstream(t, () => ({ answers: [a('192.0.2.2')] }));
  const refused = await nobody();
  const client = new Client(t, [refused, slow.at, well.at]);
  for (const name of ['a', 'b', 'c'])
    t.match((await client.ask(`${name}.example`, 'A')).answers, [{ address: '192.0.2.2' }], name);
  const [first, second, third] = client.forwarder.groups()[0]!.group.upstreams;
  t.match([first!.down, second!.down, third!.down], [true, true, false]);
  t.equal(first!.lastError, 'nobody listens there');
  const asked = slow.heard.length;
  await client.ask('d.example', 'A');
  t.equal(slow.heard.length, asked, 'nobody waits for it any more');
  frozen = false;
  client.skipped += 60_000;
  // Those that are down are asked beside the one that answers, one in turn.
  for (let i = 0; second!.down; i++) {
    await client.ask(`again-${i}.example`, 'A');
    await pause(5);
  }
  t.match((await client.ask('e.example', 'A')).answers, [{ address: '192.0.2.1' }], 'it is back in its place');

  const unreachable = new Client(t, [
    { address: '255.255.255.255', port: 53 },
    { address: 'fe80::1', port: 53 },
    well.at,
  ]);
  t.match(
    (await unreachable.ask('a.example', 'A')).answers,
    [{ address: '192.0.2.2' }],
    'one that cannot even be sent to, as without a route, is one that fails',
  );
  t.match(
    unreachable.forwarder.groups()[0]!.group.upstreams.map(({ lastError }) => lastError),
    ['EACCES', 'EINVAL', undefined],
  );
  const failing = await upstream(t, () => ({ rcode: RCODE.SERVFAIL }));
  const both = new Client(t, [failing.at, well.at]);
  t.match(
    (await both.ask('a.example', 'A')).answers,
    [{ address: '192.0.2.2' }],
    'one that fails is no answer while another has one',
  );
  const refusing = await upstream(t, () => ({ rcode: RCODE.REFUSED }));
  t.match(await new Client(t, [refusing.at]).ask('a.example', 'A', { edns: {} }), {
    rcode: RCODE.REFUSED,
    flags: { aa: 0, ra: 1 },
    ede: { code: EDE.NO_REACHABLE_AUTHORITY },
  });
});

t.test('while no upstream answers', async (t) => {
  let up = true;
  const replies: Record<string, object> = {
    'gone.example': { rcode: RCODE.NXDOMAIN, authorities: [soa(600, 60)] },
    'none.example': { authorities: [soa(30, 600)] },
    'bare.example': { rcode: RCODE.NXDOMAIN },
    'zero.example': { answers: [a('192.0.2.9', 0)] },
  };
  const server = await upstream(t, ({ name }) =>
    up ? (replies[name] ?? { answers: [a('192.0.2.1', 100), a('192.0.2.2', 20)] }) : undefined,
  );
  const client = new Client(t, [server.at]);
  const ttls = async (name: string) => (await client.ask(name, 'A')).answers.map(({ ttl }) => ttl);
  t.same(await ttls('x.example'), [100, 20]);
  client.skipped += 7_500;
  t.same(await ttls('x.example'), [93, 13], 'TTLs count down');
  for (const name of Object.keys(replies)) await client.ask(name, 'A');
  client.skipped += 5_000;
  const asked = () => server.heard.length;
  let before = asked();
  t.match(
    await client.ask('gone.example', 'A'),
    { rcode: RCODE.NXDOMAIN, authorities: [{ ttl: 55, minimum: 60 }] },
    'RFC 2308: the least of TTL and MINIMUM',
  );
  t.match(await client.ask('none.example', 'A'), { rcode: 0, answers: [], authorities: [{ ttl: 25 }] });
  t.equal(asked(), before, 'negative answers are kept');
  await client.ask('bare.example', 'A');
  await client.ask('zero.example', 'A');
  t.equal(asked(), before + 2, 'but not without an SOA, and nothing of TTL 0');

  up = false;
  client.skipped += 600_000;
  before = asked();
  t.match(await client.ask('x.example', 'A', { edns: {} }), {
    rcode: 0,
    flags: { aa: 0 },
    ede: { code: EDE.STALE_ANSWER },
  });
  t.same(await ttls('x.example'), [30, 20], 'a stale TTL is 30 at most');
  t.match(await client.ask('gone.example', 'A', { edns: {} }), {
    rcode: RCODE.NXDOMAIN,
    ede: { code: EDE.STALE_NXDOMAIN },
  });
  const unknown = await client.ask('new.example', 'A', { edns: {} });
  t.match(unknown, {
    rcode: RCODE.SERVFAIL,
    flags: { aa: 0, ra: 1 },
    ede: { code: EDE.NETWORK_ERROR, text: 'no answer in time' },
    answers: [],
  });
  await until(() => client.forwarder.groups()[0]!.group.failing);
  await until(() => client.forwarder.counts.flights > 0);
  await pause(2_500);
  before = asked();
  for (let i = 0; i < 50; i++) {
    t.match(await client.ask('new.example', 'A', { edns: {} }), {
      rcode: RCODE.SERVFAIL,
      ede: { code: EDE.NETWORK_ERROR },
    });
    await client.ask('x.example', 'A');
  }
  t.equal(asked(), before, 'a failure is kept (RFC 9520), and a stale name is not asked for at each question');

  up = true;
  client.skipped += 31_000;
  await until(async () => (await ttls('x.example'))[0] === 100);
  t.match(
    await client.ask('new.example', 'A'),
    { answers: [{ address: '192.0.2.1' }, {}] },
    'failures of before the recovery are forgotten',
  );
  client.skipped += 2 * 86_400_000;
  up = false;
  t.match(await client.ask('x.example', 'A'), { rcode: RCODE.SERVFAIL }, 'longer than maxStale nothing is kept');
});

t.test('a question is asked once, however many ask it', async (t) => {
  const server = await upstream(t, () => undefined);
  server.behave = ({ bytes, port }) => {
    setTimeout(() => server.send(say(bytes, { answers: [a('192.0.2.1', 100)] }), port), 30);
    return undefined;
  };
  const client = new Client(t, [server.at]);
  const replies = await Promise.all(
    Array.from({ length: 100 }, (_, i) => client.ask(i % 2 ? 'X.example' : 'x.EXAMPLE', 'A', { id: i })),
  );
  t.same(
    [...new Set(replies.map((reply, i) => `${reply.answers[0]?.address} ${reply.bytes[1] === i}`))],
    ['192.0.2.1 true'],
  );
  t.equal(server.heard.length, 1);
  client.skipped += 95_000;
  await client.ask('x.example', 'A');
  await until(() => client.forwarder.counts.flights === 2);
  t.pass('and again before it runs out');

  const offers: (number[] | undefined)[] = [];
  const offer = (edns: QueryOptions['edns'], tcp = false) =>
    new Promise<void>((resolve) => {
      const query = encodeQuery({ id: 1, name: 'x.example', type: TYPE.A, ...(edns ? { edns } : {}) })!;
      const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
      client.forwarder.answer({ query, transport: tcp ? 'tcp' : 'udp', peer, listen: 0 }, (_, keep) => {
        offers.push(keep && [keep.dueMs, keep.freshMs].map((ms) => Math.round(ms / 1_000)));
        resolve();
      });
    });
  await until(() => server.heard.length === 2);
  await pause(60);
  await offer(undefined);
  await offer({});
  await offer({ dnssecOk: true });
  await offer({ options: [{ code: 10, data: Buffer.alloc(8) }] });
  client.skipped += 80_000;
  await offer({}, true);
  client.skipped += 12_000;
  await offer({});
  t.same(
    offers,
    [[90, 100], [90, 100], undefined, undefined, [10, 20], [-2, 8]],
    'a thread may give it, and tells of it when a refresh is near; not what it has just learnt, nor with options',
  );
});

t.test('large answers: TCP when cut, whole records for the client', async (t) => {
  const many: Rec[] = Array.from({ length: 200 }, (_, i) => a(`192.0.2.${i}`));
  const server = await upstream(t, ({ via }) =>
    via === 'tcp' ? { answers: many } : { tc: true, answers: many.slice(0, 5) },
  );
  const client = new Client(t, [server.at]);
  const cut = await client.ask('big.example', 'A', { edns: { payload: 1232 } });
  t.match(cut, { flags: { tc: 1 }, errors: [], opt: { payload: 1232 } });
  t.equal(cut.answers.length, Math.floor((1232 - 12 - 17 - 11) / 16));
  t.same(
    server.heard.map(({ via }) => via),
    ['udp', 'tcp'],
  );
  t.match(await client.ask('big.example', 'A', { tcp: true }), { flags: { tc: 0 }, answers: { length: 200 } });
  t.equal(
    (await client.ask('big.example', 'A')).answers.length,
    Math.floor((512 - 12 - 17) / 16),
    '512 octets without EDNS',
  );
  await client.ask('tcp.example', 'A', { tcp: true });
  t.match(
    server.heard.map(({ via }) => via),
    ['udp', 'tcp', 'tcp'],
    'who comes by TCP is asked for by TCP',
  );

  const bare = await upstream(t, () => ({ tc: true, answers: many.slice(0, 5) }), { tcp: false });
  t.match(
    await new Client(t, [bare.at]).ask('big.example', 'A'),
    { flags: { tc: 1 }, answers: { length: 5 } },
    'without TCP, what there is',
  );
  const udpOnly = await upstream(t, () => ({ answers: [a('192.0.2.1')] }), { tcp: false });
  t.match(await new Client(t, [udpOnly.at]).ask('x.example', 'A', { tcp: true }), {
    answers: [{ address: '192.0.2.1' }],
  });
  const tcpOnly = await upstream(t, ({ via }) => (via === 'tcp' ? { answers: [a('192.0.2.1')] } : undefined));
  t.match(
    await new Client(t, [tcpOnly.at]).ask('x.example', 'A'),
    { answers: [{ address: '192.0.2.1' }] },
    'the last try is by the other transport',
  );
  const old = await upstream(t, ({ bytes }) =>
    bytes.readUInt16BE(10) > 0 ? { rcode: RCODE.FORMERR } : { answers: [a('192.0.2.1')] },
  );
  t.match(
    await new Client(t, [old.at]).ask('x.example', 'A', { edns: {} }),
    { opts: 1, answers: [{ address: '192.0.2.1' }] },
    'one that knows no EDNS is asked without',
  );
});

t.test('what never leaves', async (t) => {
  const server = await upstream(t, () => ({ answers: [a('192.0.2.1')] }));
  const corp = await upstream(t, () => ({ answers: [a('192.0.2.7')] }));
  const domains = [
    { domain: 'corp.example', upstreams: [corp.at] },
    { domain: 'home.arpa', upstreams: [corp.at] },
  ];
  const client = new Client(t, [server.at], { domains });
  const said = async (name: string, type: keyof typeof TYPE) => {
    const { rcode, flags, answers, authorities } = await client.ask(name, type);
    const data = answers.map((r) => r.address ?? r.domain ?? r.ns ?? r.primary).join(' ');
    return `${rcode} ${flags.aa ? 'aa' : '--'} ${data}${authorities.length ? 'soa' : ''}`;
  };
  const expected: [name: string, type: keyof typeof TYPE, said: string][] = [
    ['localhost', 'A', '0 aa 127.0.0.1'],
    ['any.LocalHost', 'AAAA', '0 aa ::1'],
    ['localhost', 'TXT', '0 aa soa'],
    ['x.invalid', 'A', '3 aa soa'],
    ['a.test', 'A', '3 aa soa'],
    ['printer.local', 'A', '3 aa soa'],
    ['x.onion', 'A', '3 aa soa'],
    ['1.0.0.127.in-addr.arpa', 'PTR', '0 aa localhost'],
    ['0.0.127.in-addr.arpa', 'PTR', '0 aa soa'],
    ['5.0.0.10.in-addr.arpa', 'PTR', '3 aa soa'],
    ['5.0.31.172.in-addr.arpa', 'PTR', '3 aa soa'],
    ['1.0.127.100.in-addr.arpa', 'PTR', '3 aa soa'],
    ['10.in-addr.arpa', 'NS', '0 aa localhost'],
    ['1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa', 'PTR', '0 aa localhost'],
    ['1.d.f.ip6.arpa', 'PTR', '3 aa soa'],
    ['web.svc.internal', 'A', '5 -- '],
  ];
  for (const [name, type, want] of expected) t.equal(await said(name, type), want, `${name} ${type}`);
  t.equal(server.heard.length, 0);
  t.equal(await said('5.0.32.172.in-addr.arpa', 'A'), '0 -- 192.0.2.1', 'a public reverse name does');
  t.equal(await said('x.corp.example', 'A'), '0 -- 192.0.2.7', 'a domain goes to its own servers');
  t.equal(await said('xcorp.example', 'A'), '0 -- 192.0.2.1', 'and what only ends like it does not');
  t.equal(await said('tv.home.arpa', 'A'), '0 -- 192.0.2.7', 'a special name may be given servers');
  t.match(await client.ask('x.example', 'A', { recursionDesired: false, edns: {} }), {
    rcode: RCODE.REFUSED,
    ede: { code: EDE.NOT_AUTHORITATIVE },
  });

  client.forwarder.reconfigure({
    upstreams: [corp.at],
    domains,
    agents: [],
    recurses: () => true,
    zones: ['example'],
    cacheBytes: 1 << 20,
    maxStale: 86_400_000,
    maxUdp: 1232,
    now: () => performance.now(),
    isOurs: () => false,
  });
  t.equal(await said('x.corp.example', 'A'), '5 -- ', 'a new zone has its names at once');
});

t.test('questions that would come back to us are not asked', async (t) => {
  const server = await upstream(t, () => ({ rcode: RCODE.SERVFAIL }));
  const loop = new Client(t, [server.at]);
  server.behave = ({ bytes }) => {
    void loop.send(bytes);
    return undefined;
  };
  loop.forwarder.checkLoops(false);
  await until(() => loop.forwarder.groups()[0]!.group.upstreams[0]!.loop);
  t.match(await loop.ask('x.example', 'A', { edns: {} }), {
    rcode: RCODE.SERVFAIL,
    ede: { code: EDE.NETWORK_ERROR, text: 'there is no upstream but ourselves' },
  });
  t.equal(server.heard.length, 1, 'it is not asked any more');
  server.behave = () => ({ rcode: RCODE.NXDOMAIN });
  loop.forwarder.checkLoops(true);
  await until(() => !loop.forwarder.groups()[0]!.group.upstreams[0]!.loop);
  server.behave = () => ({ answers: [a('192.0.2.1')] });
  t.match(
    await loop.ask('y.example', 'A'),
    { answers: [{ address: '192.0.2.1' }] },
    'when the loop is gone it is asked again',
  );
  const own = new Client(t, [server.at], { isOurs: () => true });
  t.match(await own.ask('y.example', 'A'), { rcode: RCODE.SERVFAIL });
});

t.test('resolv.conf: servers in order, without local stubs and what is no address', async (t) => {
  const text =
    '# made by hand\nsearch a.example\nnameserver 127.0.0.53\n nameserver\t192.0.2.1 # first\nnameserver 2001:DB8::1\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\nnameserver x\noptions rotate\n';
  t.same(readResolvConf(text), [
    { address: '192.0.2.1', port: 53 },
    { address: '2001:db8::1', port: 53 },
    { address: 'fe80::1%eth0', port: 53 },
  ]);
});

t.test('the process: servers out of resolv.conf while it changes, domains, status and what is wrong', async (t) => {
  const folder = t.testdir({ 'resolv.conf': 'nameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver 127.0.0.1\n' });
  const file = join(folder, 'resolv.conf');
  const refusing = await nobody();
  const text = (forward: string) =>
    `version: 1\nlisten: ["127.0.0.1:53"]\nzones: [{ name: svc.internal, registry: { type: file, path: s.yaml } }]\n${forward}`;
  const config = (forward: string) =>
    parseConfig(text(forward), join(folder, 'h.yaml'), { stateDir: '/x', runDir: '/x' });
  const server = `127.0.0.1:${refusing.port}`;
  const lines: string[] = [];
  const log = (_: string, event: string) => lines.push(event);
  const first = config(`forward: { resolvConf: resolv.conf, domains: { corp.example: ["${server}"] } }`);
  const link = new ForwardLink(first, log, new BootClock(), { forget: () => {}, keep: () => {} });
  t.teardown(() => link.stop());
  const shown = () => link.status()?.upstreams.map((u) => `${u.address} ${u.domain ?? '.'} ${u.state}`);
  t.same(shown(), ['192.0.2.1:53 . up', `${server} corp.example up`], 'neither the local stub nor ourselves');
  await link.look();
  t.same(lines, []);
  writeFileSync(file, 'nameserver 192.0.2.2\n');
  await link.look();
  t.same(shown(), ['192.0.2.2:53 . up', `${server} corp.example up`]);
  t.same(lines, ['forward-upstreams']);
  for (const bad of ['', 'nameserver 127.0.0.1\n']) {
    writeFileSync(file, bad);
    await link.look();
    t.match(link.problems(), [/^forwarding: .*resolv\.conf names no server but this host's own$/]);
    t.equal(shown()?.[0], '192.0.2.2:53 . up', 'those known stay');
  }
  unlinkSync(file);
  await link.look();
  t.match(link.problems(), [/resolv\.conf cannot be read: ENOENT/]);
  spawnSync('mkfifo', [file]);
  for (const again of [() => link.look(), async () => link.reload(first)]) {
    await again();
    t.match(link.problems(), [/resolv\.conf cannot be read: it is a named pipe, expected a regular file/]);
    t.equal(shown()?.[0], '192.0.2.2:53 . up', 'nobody waits for a writer');
  }

  const answer = link.settings!.answer;
  const reply = await new Promise<Uint8Array | undefined>((resolve) => {
    const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
    answer({ query: question('x.corp.example', 'A'), transport: 'udp', peer, listen: 0 }, resolve);
  });
  t.equal(decode(reply!).rcode, RCODE.SERVFAIL);
  t.match(link.status(), {
    upstreams: [{}, { state: 'down', queries: 1, failures: 1, lastError: 'nobody listens there' }],
    counts: { queries: 1, failures: 1 },
  });
  await link.look();
  t.same(lines, ['forward-upstreams', 'forward-failing']);
  t.ok(link.problems().includes('forwarding: no upstream answers; names in corp.example come from the cache or fail'));
  link.reload(config(`forward: { upstreams: ["${server}"] }`));
  t.same([shown(), link.problems()], [[`${server} . up`], []]);
  t.equal(link.settings?.answer, answer, 'threads need not be told of another one');
  link.reload(config(''));
  t.same([link.settings, link.status(), link.problems()], [undefined, undefined, []]);
});

t.test('nothing that an upstream sends does harm', async (t) => {
  let seed = 7;
  const random = (below: number) => (seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0) % below;
  const bend = (message: Buffer): Buffer => {
    const bent = Buffer.from(message.subarray(0, random(4) === 0 ? random(message.length + 1) : message.length));
    for (let j = random(8); j > 0 && bent.length > 0; j--) bent[random(bent.length)] = random(256);
    return bent;
  };
  const asked = readQuestion(encodeQuery({ id: 5, name: 'x.example', type: TYPE.A, edns: { dnssecOk: true } })!)!;
  const query = Buffer.from(encodeUpstreamQuery(asked, 5, true));
  const good = say(query, {
    answers: [a('192.0.2.1'), { type: 65_280, rdata: Buffer.alloc(300, 0xc0) }],
    authorities: [soa(60, 60)],
    additionals: [a('192.0.2.2')],
    options: option(OPTION.ede, '\0\x01x'),
  });
  const outcomes = { foreign: 0, unreadable: 0, composed: 0 };
  let tooLong = 0;
  for (let i = 0; i < 20_000; i++) {
    const message = bend(good);
    if (!belongsTo(message, query)) {
      outcomes.foreign++;
      continue;
    }
    const reply = readReply(message, asked);
    if (reply === undefined) {
      outcomes.unreadable++;
      continue;
    }
    outcomes.composed++;
    const limit = 64 + random(600);
    for (const stale of [false, true])
      if (
        composeReply(asked, reply, {
          limit,
          maxUdp: 1232,
          age: random(400),
          stale,
          live: !stale,
          ede: stale ? { code: 3 } : undefined,
        }).length > Math.max(limit, 200)
      )
        tooLong++;
  }
  t.equal(tooLong, 0);
  for (const [outcome, count] of Object.entries(outcomes)) t.ok(count > 100, outcome);

  const server = await upstream(t, ({ bytes }) =>
    bend(say(bytes, { answers: [a('192.0.2.1')], options: option(OPTION.ede, '\0\x01x') })),
  );
  const client = new Client(t, [server.at]);
  const replies = await Promise.all(
    Array.from({ length: 300 }, (_, i) => client.ask(`n${i}.example`, i % 3 === 0 ? 'TXT' : 'A', { tcp: i % 5 === 0 })),
  );
  t.equal(
    replies.filter(({ flags, questions }) => flags.qr === 1 && questions === 1).length,
    300,
    'each client gets a reply',
  );
});

const nsd = spawnSync('nsd', ['-v']).error === undefined;
t.test('before a real server', { skip: nsd ? false : 'nsd is not installed' }, async (t) => {
  const folder = t.testdir();
  const { port } = await nobody();
  mkdirSync(join(folder, 'zones'));
  const text = Array.from({ length: 30 }, (_, i) => `big 60 IN TXT "${i}-${'x'.repeat(100)}"`).join('\n');
  writeFileSync(
    join(folder, 'zones', 'z'),
    `$ORIGIN real.example.\n@ 60 IN SOA ns admin 1 2 3 4 30\n@ 60 IN NS ns\nns 60 IN A 192.0.2.53\nwww 60 IN CNAME deep\ndeep 60 IN A 192.0.2.1\nsvc 60 IN TYPE65280 \\# 3 010203\nh 60 IN HTTPS 1 . alpn=h2\n${text}\n`,
  );
  writeFileSync(
    join(folder, 'nsd.conf'),
    `server:\n  ip-address: 127.0.0.1@${port}\n  username: ""\n  chroot: ""\n  zonesdir: "${folder}/zones"\n  pidfile: "${folder}/pid"\n  xfrdfile: "${folder}/xfrd"\n  xfrdir: "${folder}"\n  zonelistfile: "${folder}/list"\n  database: ""\nremote-control:\n  control-enable: no\nzone:\n  name: real.example\n  zonefile: z\n`,
  );
  const server = spawn('nsd', ['-d', '-c', join(folder, 'nsd.conf')], { stdio: 'ignore' });
  t.teardown(() => server.kill('SIGTERM'));
  await until(
    async () => (await askUdp({ address: '127.0.0.1', port }, question('ns.real.example', 'A'), 100)) !== undefined,
  );
  const client = new Client(t, [{ address: '127.0.0.1', port }]);
  const same = async (name: string, type: number, tcp = false) => {
    const message = Buffer.from(encodeQuery({ id: 77, name, type })!);
    const direct = new TcpClient({ address: '127.0.0.1', port });
    direct.socket.end(framed(message));
    const [expected] = await direct.take(1);
    const got = decode((await client.send(message, tcp))!);
    t.same(
      [got.rcode, got.answers, got.authorities.length],
      [expected!.rcode, expected!.answers, expected!.authorities.length],
      `${name} ${type}`,
    );
  };
  await same('www.real.example', TYPE.A);
  await same('svc.real.example', 65_280);
  await same('h.real.example', 65);
  await same('big.real.example', TYPE.TXT, true);
  await same('none.real.example', TYPE.A);
  await same('deep.real.example', TYPE.AAAA);
});

t.test("names of a zone that its registry's own server is asked for", async (t) => {
  const agent = await upstream(t, () => ({ answers: [a('192.0.2.9', 0)] }));
  const other = await upstream(t, () => ({ answers: [a('192.0.2.1', 100)] }));
  const agents = [{ domain: 'svc.internal', upstreams: [agent.at], listen: [1] }];
  const client = new Client(t, [other.at], { agents, recurses: () => false });
  const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
  const ask = (listen: number, more: QueryOptions = { name: 'geo.query.svc.internal', type: TYPE.A, edns: {} }) =>
    new Promise<{ reply: Reply; kept: boolean }>((resolve) => {
      client.forwarder.answer({ query: encodeQuery(more)!, transport: 'udp', peer, listen }, (message, keep) =>
        resolve({ reply: decode(message!), kept: keep !== undefined }),
      );
    });
  const { reply, kept } = await ask(1);
  t.match(reply, { rcode: 0, answers: [{ address: '192.0.2.9', ttl: 0 }], flags: { aa: 0, ra: 0 } });
  t.equal(kept, false, 'threads ask again');
  t.equal((await ask(0)).reply.rcode, RCODE.REFUSED, 'a client of another view is not its client (R31)');
  t.same([agent.heard.length, other.heard.length], [1, 0]);
  await ask(1);
  t.equal(agent.heard.length, 2, 'a lifetime of 0 is asked for each time');
  agent.behave = () => ({ rcode: RCODE.SERVFAIL });
  t.match((await ask(1)).reply, { answers: [{ address: '192.0.2.9' }], ede: { code: 3 } }, 'while it fails, the last');
});
