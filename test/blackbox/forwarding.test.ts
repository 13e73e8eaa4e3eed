/** The real program while everybody whom it forwards to is frozen, and what such names may do to it. */
import t, { type Test } from 'tap';
import { EDE, TYPE } from '../../src/dns/constants.js';
import { a, type Behaviour, type Heard, soa } from '../forward-fixture.js';
import { exchange, Protocol, query, TRANSPORTS } from '../protocol-fixture.js';
import { framed, pause, TcpClient } from '../server-fixture.js';
import { readMessage } from '../wire-message.js';
import { openSockets, until } from './program.js';

t.setTimeout(240_000);

/** As `ordinary`, with a TTL of one second. */
const brief: Behaviour = ({ name, type }: Heard) => {
  if (name.startsWith('gone')) return { rcode: 3, authorities: [soa(1, 1)] };
  return type === TYPE.A ? { answers: [a('192.0.2.1', 1)] } : { authorities: [soa(1, 1)] };
};
const names = Array.from({ length: 50 }, (_, i) => `n${i}.example`);

async function frozen(t: Test, transport: string): Promise<Protocol> {
  const on = await new Protocol(brief).start(t, transport);
  for (const name of [...names, 'gone.example']) await on.ask(name, 'A');
  t.match(await on.ask('n0.example', 'AAAA'), { rcode: 0, answers: [] });
  on.upstream.behave = () => undefined;
  await pause(1_100);
  return on;
}

for (const transport of TRANSPORTS)
  t.test(`${transport}: with all upstreams frozen`, async (t) => {
    const on = await frozen(t, transport);

    await t.test('known names are answered as they were, stale, without waiting', async (t) => {
      // A client that waits for half a second, where an upstream is given 400 ms and more.
      const replies = await exchange(
        { address: '127.0.0.1', port: on.host.port },
        names.map((name, id) => query(name, 'A', { id, edns: {} })),
        50,
      );
      t.equal(replies.length, 50);
      for (const reply of replies)
        t.match(readMessage(reply), { rcode: 0, answers: [{ ttl: 1 }], edes: [{ code: EDE.STALE_ANSWER }] });
      t.match(await on.ask('gone.example', 'A', { edns: {} }), { rcode: 3, edes: [{ code: EDE.STALE_NXDOMAIN }] });
      t.match(await on.ask('n0.example', 'AAAA', { edns: {} }), { rcode: 0, answers: [], edes: [{ code: 3 }] });
    });

    await t.test(
      'a stale name comes before an unknown one that was asked first, by UDP and on one connection',
      async (t) => {
        const asked = [
          query('new1.example', 'A', { id: 1 }),
          query('n1.example', 'A', { id: 2 }),
          query('web.svc.test', 'A', { id: 3 }),
        ];
        const udp = await exchange({ address: '127.0.0.1', port: on.host.port }, asked, 3);
        t.same(udp.map((reply) => reply[1]).sort().length, 3);
        t.equal(udp.at(-1)![1], 1, 'UDP');
        const client = new TcpClient({ address: '127.0.0.1', port: on.host.port });
        client.socket.write(framed(query('new2.example', 'A', { id: 1 }), ...asked.slice(1)));
        t.equal((await client.take(3)).at(-1)?.bytes[1], 1, 'TCP');
        client.socket.destroy();
      },
    );

    await t.test('unknown names fail for a client that waits for two seconds, with EDE 22 or 23', async (t) => {
      const replies = await Promise.all(
        Array.from({ length: 40 }, (_, i) => on.host.udp(query(`unknown${i}.example`, 'A', { edns: {} }))),
      );
      for (const reply of replies) {
        if (!reply) t.fail('no reply in two seconds');
        else t.match(readMessage(reply), { rcode: 2, answers: [], edes: [{ code: EDE.NETWORK_ERROR }] });
      }
    });

    await t.test('own zones are untouched, and the status says what is wrong', async (t) => {
      for (const name of ['web', 'even', 'six', 'pair']) {
        const reply = await on.ask(`${name}.svc.test`, 'SRV', { edns: {} });
        t.match(reply, { rcode: 0, flags: { aa: true }, edes: [] }, name);
      }
      t.match(on.host.json<{ problems: string[] }>('status').problems.join('\n'), /no upstream answers/);
    });

    await t.test('however often it is asked, the upstream is left alone', async (t) => {
      const before = on.upstream.heard.length;
      for (let i = 0; i < 20; i++)
        await exchange(
          { address: '127.0.0.1', port: on.host.port },
          names.map((name, id) => query(name, 'A', { id })),
          50,
        );
      const heard = on.upstream.heard.length - before;
      t.ok(heard <= 20, `${heard} questions for 1,000`);
    });

    await t.test('when it is back, old and new names are answered afresh', async (t) => {
      on.upstream.behave = ({ type }) => (type === TYPE.A ? { answers: [a('192.0.2.9', 60)] } : { rcode: 5 });
      await until('news of a known name', async () => (await on.ask('n3.example', 'A')).answers[0]?.rdata[3] === 9);
      for (const name of ['unknown1.example', 'new1.example', 'n7.example'])
        await until(name, async () => (await on.ask(name, 'A')).answers[0]?.rdata[3] === 9);
      t.match(await on.ask('n3.example', 'A', { edns: {} }), { rcode: 0, edes: [] });
    });
  });

t.test('hostile upstreams', async (t) => {
  const on = await new Protocol().start(t, 'auto');
  const { upstream } = on;
  const descriptors = () => openSockets(on.program.child.pid);
  await on.ask('www.example', 'A');
  const open = descriptors();
  const header = (bytes: Buffer, flags: number, ...counts: number[]) => {
    const out = Buffer.alloc(12);
    bytes.copy(out, 0, 0, 2);
    out.writeUInt16BE(flags, 2);
    counts.forEach((count, i) => {
      out.writeUInt16BE(count, 4 + i * 2);
    });
    return out;
  };
  const asked = (bytes: Buffer) => bytes.subarray(12, bytes.indexOf(0, 12) + 5);
  const whole = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
  /** What it says by UDP (and TCP), and what a client must be told: nothing made up, and not nothing. */
  const lies: Record<string, Behaviour> = {
    'a name that points to itself': ({ bytes }) =>
      Buffer.concat([
        header(bytes, 0x8180, 1, 1, 0, 0),
        asked(bytes),
        Buffer.from([0xc0, bytes.length, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
      ]),
    'an alias that points to itself': ({ bytes }) => {
      const end = asked(bytes).length + 12;
      const alias = Buffer.from([0xc0, 0x0c, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, end + 12]);
      return Buffer.concat([header(bytes, 0x8180, 1, 1, 0, 0), asked(bytes), alias]);
    },
    'an alias that is longer than its record': ({ bytes }) =>
      Buffer.concat([
        header(bytes, 0x8180, 1, 1, 0, 0),
        asked(bytes),
        Buffer.from([0xc0, 0x0c, 0, 5, 0, 1, 0, 0, 0, 60, 0, 1, 5, 0x61, 0]),
      ]),
    'records that are not there': ({ bytes }) =>
      Buffer.concat([header(bytes, 0x8180, 1, 9, 9, 9), asked(bytes), whole]),
    'a record that is longer than the message': ({ bytes }) =>
      Buffer.concat([
        header(bytes, 0x8180, 1, 1, 0, 0),
        asked(bytes),
        whole.subarray(0, 10),
        Buffer.from([255, 255, 1]),
      ]),
    'two OPT records': ({ bytes }) =>
      Buffer.concat([
        header(bytes, 0x8180, 1, 0, 0, 2),
        asked(bytes),
        Buffer.from('0000290200000000000000000029020000000000000000'.slice(0, 44), 'hex'),
      ]),
    'cut, and garbage over TCP': ({ bytes, via }) =>
      via === 'udp'
        ? Buffer.concat([header(bytes, 0x8380, 1, 0, 0, 0), asked(bytes)])
        : Buffer.from('garbage that is no message at all'),
    'no question with data': ({ bytes }) => Buffer.concat([header(bytes, 0x8180, 0, 1, 0, 0), whole]),
    'nothing but the header, with NOERROR': ({ bytes }) => header(bytes, 0x8180, 0, 0, 0, 0),
    'another opcode': ({ bytes }) => Buffer.concat([header(bytes, 0xa180, 1, 1, 0, 0), asked(bytes), whole]),
    'the question itself': ({ bytes }) => bytes,
    'a label type that is not defined': ({ bytes }) =>
      Buffer.concat([
        header(bytes, 0x8180, 1, 1, 0, 0),
        asked(bytes),
        Buffer.from([0x80, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
      ]),
    'an empty datagram': () => Buffer.alloc(0),
    'an rcode that is not defined': ({ bytes }) => Buffer.concat([header(bytes, 0x818f, 1, 0, 0, 0), asked(bytes)]),
  };
  await Promise.all(
    Object.entries(lies).map(async ([what, behave], i) => {
      const name = `lie${i}.example`;
      const before = upstream.behave;
      upstream.behave = (heard) => (heard.name === name ? behave(heard) : before(heard));
      const [udp, tcp] = await Promise.all([
        on.ask(name, 'A', { edns: {} }),
        on.ask(name, 'AAAA', { tcp: true, edns: {} }),
      ]);
      for (const reply of [udp, tcp]) {
        t.ok(
          reply.rcode === 2 || reply.rcode === 15 || (reply.flags.tc && reply.answers.length === 0),
          `${what}: rcode ${reply.rcode}`,
        );
        t.equal(reply.answers.length, 0, what);
        t.equal(reply.opts.length, 1, what);
      }
    }),
  );
  upstream.behave = ({ bytes, via }) => {
    // A chain of aliases that fills a message, of which the last points to the first.
    const links = Array.from({ length: via === 'tcp' ? 3_000 : 50 }, () =>
      Buffer.from([0xc0, 0x0c, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 0x0c]),
    );
    return Buffer.concat([header(bytes, 0x8180, 1, links.length, 0, 0), asked(bytes), ...links]);
  };
  t.match(await on.ask('chain.example', 'A'), { rcode: 0 });
  t.equal((await on.ask('chain2.example', 'A', { tcp: true })).answers.length, 3_000);
  t.match(await on.ask('web.svc.test', 'A'), { rcode: 0 });
  t.ok(on.program.alive);
  await until('no descriptor is left open', () => descriptors() <= open + 2);
  t.notMatch(on.program.output, /"level":"(error|fatal)"|Error/);
});
