import t from 'tap';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { a, Client, type Rec, say, upstream } from './forward-fixture.js';
import { pause, until } from './server-fixture.js';

const option = (code: number, text: string) =>
  Buffer.from([code >> 8, code & 255, 0, text.length, ...Buffer.from(text)]);
const OPTION = { cookie: 10, nsid: 3, ede: 15 };

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
