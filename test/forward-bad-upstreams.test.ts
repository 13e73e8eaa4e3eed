/** Upstreams that answer, and answer badly: what clients get all the same, and what the next ones must not suffer from it. */
import t, { type Test } from 'tap';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { ForwardCache } from '../src/forward/cache.js';
import { a, type Behaviour, Client, FakeUpstream, type Rec, say, soa } from './forward-fixture.js';
import { pause, until } from './server-fixture.js';

const upstream = (t: Test, behave: Behaviour, options?: { tcp?: boolean }) =>
  new FakeUpstream(behave).start(t, options);
const option = (code: number, data: Buffer) => {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(code, 0);
  head.writeUInt16BE(data.length, 2);
  return Buffer.concat([head, data]);
};
const hasOpt = (bytes: Buffer) => bytes.readUInt16BE(10) > 0;
const many: Rec[] = Array.from({ length: 60 }, (_, i) => a(`192.0.2.${i}`));
/** An OPT record with upper bits of an rcode in it. */
const extended = (bytes: Buffer, rcode: number) => {
  const reply = say(bytes, { rcode: rcode & 15, options: Buffer.alloc(0) });
  reply[reply.length - 6] = rcode >>> 4;
  return reply;
};

t.test('a reply that is cut within a record is asked for again over TCP', async (t) => {
  const server = await upstream(t, ({ bytes, via }) =>
    via === 'tcp' ? { answers: many } : say(bytes, { answers: many, tc: true }).subarray(0, 500),
  );
  const client = new Client(t, [server.at]);
  t.match(await client.ask('cut.example', 'A', { edns: { payload: 1232 } }), {
    rcode: 0,
    flags: { tc: 0 },
    answers: { length: 60 },
  });
  t.equal(client.forwarder.groups()[0]!.group.upstreams[0]!.failures, 0);

  const deaf = await upstream(t, ({ bytes }) => say(bytes, { answers: many, tc: true }).subarray(0, 500), {
    tcp: false,
  });
  t.match(
    await new Client(t, [deaf.at]).ask('cut.example', 'A', { edns: { payload: 1232 } }),
    { rcode: 0, flags: { tc: 1 }, answers: [] },
    'without TCP the client is told that there is more',
  );
});

t.test('an rcode that only an OPT record can hold is SERVFAIL for who has none', async (t) => {
  const server = await upstream(t, ({ bytes, name }) => extended(bytes, name === 'vers.example' ? 16 : 23));
  const client = new Client(t, [server.at]);
  for (const when of ['at once', 'from what is kept']) {
    t.match(await client.ask('x.example', 'A'), { rcode: RCODE.SERVFAIL, answers: [], opts: 0 }, when);
    t.equal((await client.ask('y.example', 'A', { edns: {} })).bytes[3]! & 15, 23 & 15, when);
  }
});

t.test('EDNS is left out', async (t) => {
  await t.test('for an upstream that answers without it, and not with it', async (t) => {
    for (const rcode of [RCODE.FORMERR, RCODE.NOTIMP, RCODE.BADVERS]) {
      const server = await upstream(t, ({ bytes }) => {
        if (!hasOpt(bytes)) return { answers: [a('192.0.2.1')] };
        return rcode > 15 ? extended(bytes, rcode) : { rcode };
      });
      const client = new Client(t, [server.at]);
      t.match(await client.ask('x.example', 'A'), { answers: [{ address: '192.0.2.1' }] }, `${rcode}`);
      t.match(await client.ask('y.example', 'A'), { answers: [{ address: '192.0.2.1' }] }, `${rcode}`);
      t.equal(server.heard.length, 3, 'and that is remembered');
    }
  });

  await t.test('and not for others when one question is not understood, whoever asks it', async (t) => {
    const server = await upstream(t, ({ name, bytes }) =>
      name.startsWith('odd') ? { rcode: RCODE.FORMERR } : { answers: [a(hasOpt(bytes) ? '192.0.2.1' : '192.0.2.2')] },
    );
    const client = new Client(t, [server.at]);
    t.match(await client.ask('odd.example', 'A'), { rcode: RCODE.FORMERR });
    t.match(await client.ask('x.example', 'A'), { answers: [{ address: '192.0.2.1' }] });

    // A client subnet that is malformed (RFC 7871 s.7.1.1), and that this upstream looks at.
    server.behave = ({ bytes }) =>
      hasOpt(bytes) && bytes.length > 40
        ? { rcode: RCODE.FORMERR }
        : { answers: [a(hasOpt(bytes) ? '192.0.2.1' : '192.0.2.2')] };
    const subnet = { code: 8, data: Buffer.from([0, 9, 99, 0]) };
    await client.ask('sub.example', 'A', { edns: { options: [subnet] } });
    t.match(await client.ask('z.example', 'A'), { answers: [{ address: '192.0.2.1' }] });
  });
});

t.test('what may not be kept takes the place of what was kept all the same', async (t) => {
  const news: Record<string, object> = {
    'zero.example': { answers: [a('192.0.2.9', 0)] },
    'gone.example': { rcode: RCODE.NXDOMAIN },
    'none.example': {},
  };
  let later = false;
  let up = true;
  const server = await upstream(t, ({ name }) => {
    if (!up) return undefined;
    return later ? news[name] : { answers: [a('192.0.2.1', 60)] };
  });
  const client = new Client(t, [server.at]);
  for (const name of Object.keys(news)) await client.ask(name, 'A');
  later = true;
  client.skipped += 65_000;
  for (const name of Object.keys(news)) await client.ask(name, 'A');
  await until(() => client.forwarder.counts.flights === 6 && client.forwarder.cache.entries === 0);
  t.match(await client.ask('zero.example', 'A'), { answers: [{ address: '192.0.2.9', ttl: 0 }] });
  t.match(await client.ask('gone.example', 'A'), { rcode: RCODE.NXDOMAIN });
  t.match(await client.ask('none.example', 'A'), { rcode: 0, answers: [] });
  up = false;
  t.match(await client.ask('gone.example', 'A'), { rcode: RCODE.SERVFAIL }, 'and is not back in an outage');
});

t.test('options larger than the reply may be are left out', async (t) => {
  const text = option(15, Buffer.concat([Buffer.from([0, 22]), Buffer.alloc(1_300, 'x')]));
  const server = await upstream(t, ({ name }) => ({
    ...(name === 'fail.example' ? { rcode: RCODE.SERVFAIL } : { answers: [a('192.0.2.1')] }),
    options: text,
  }));
  const client = new Client(t, [server.at]);
  for (const payload of [512, 1232]) {
    const reply = await client.ask(`x${payload}.example`, 'A', { edns: { payload } });
    t.match(reply, { rcode: 0, flags: { tc: 0 }, answers: [{ address: '192.0.2.1' }] });
    t.ok(reply.bytes.length <= payload, `${reply.bytes.length} bytes`);
  }
  const failed = await client.ask('fail.example', 'A', { edns: {} });
  t.match(failed, { rcode: RCODE.SERVFAIL, ede: { code: EDE.NO_REACHABLE_AUTHORITY } });
  t.ok(failed.bytes.length <= 1232);
});

t.test('a name that brings no answer does not take its upstream for dead', async (t) => {
  let address = '192.0.2.1';
  const server = await upstream(t, ({ name, type }) => {
    if (name.startsWith('slow')) return undefined;
    return type === TYPE.A ? { answers: [a(address, 60)] } : { authorities: [soa(60, 60)] };
  });
  const client = new Client(t, [server.at]);
  await client.ask('www.example', 'A');
  client.skipped += 3_600_000;
  address = '192.0.2.2';
  const [{ group }] = client.forwarder.groups() as [ReturnType<typeof client.forwarder.groups>[0]];
  let failed = false;
  group.changed = () => {
    failed ||= group.failing;
  };
  t.match(await client.ask('slow.example', 'A'), { rcode: RCODE.SERVFAIL });
  t.equal(failed, false);
  t.match(await client.ask('www.example', 'A'), { answers: [{ address: '192.0.2.2' }] }, 'others have news');
});

t.test('slow names take no room from others', async (t) => {
  const server = await upstream(t, ({ name }) =>
    name.startsWith('slow') ? undefined : { answers: [a('192.0.2.1', 60)] },
  );
  const client = new Client(t, [server.at]);
  const slow = Array.from({ length: 600 }, (_, i) => client.ask(`slow${i}.example`, 'A', { edns: {} }));
  await pause(600);
  t.match(await client.ask('www.example', 'A'), { rcode: 0, answers: [{ address: '192.0.2.1' }] });
  for (const reply of await Promise.all(slow)) if (reply.rcode !== RCODE.SERVFAIL) t.fail(`rcode ${reply.rcode}`);
});

t.test('failures that are kept are bounded in bytes', (t) => {
  const cache = new ForwardCache(1 << 20, 1_000);
  const failure = { reply: undefined, ede: { code: EDE.NETWORK_ERROR }, epoch: 1 };
  for (let i = 0; i < 500; i++) cache.fail(`${i}${'x'.repeat(20_000)}`, failure, 0);
  const kept = Array.from({ length: 500 }, (_, i) => cache.failure(`${i}${'x'.repeat(20_000)}`, 1) !== undefined);
  t.match([kept[0], kept[499]], [false, true]);
  t.end();
});
