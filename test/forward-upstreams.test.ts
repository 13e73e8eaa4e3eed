/** Upstreams that lie, are silent, are gone, or are real. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { composeReply } from '../src/forward/compose.js';
import { readQuestion } from '../src/forward/question.js';
import { belongsTo, encodeUpstreamQuery, readReply } from '../src/forward/upstream-message.js';
import { decode } from './answers-fixture.js';
import { a, Client, nobody, say, soa, upstream } from './forward-fixture.js';
import { freePort } from './ports.js';
import { askUdp, framed, pause, question, TcpClient, until } from './server-fixture.js';

const option = (code: number, text: string) =>
  Buffer.from([code >> 8, code & 255, 0, text.length, ...Buffer.from(text)]);
const OPTION = { cookie: 10, nsid: 3, ede: 15 };

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
  const port = await freePort();
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
