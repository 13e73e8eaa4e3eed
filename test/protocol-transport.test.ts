/** Items 31 to 37 and 39 (UDP, TCP, sizes) of the checklist. */
import t from 'tap';
import { type Item, KINDS, Protocol, prove, query } from './protocol-fixture.js';
import { framed, TcpClient, until } from './server-fixture.js';
import type { WireMessage } from './wire-message.js';

t.setTimeout(240_000);

const NAME = 'web.svc.test';
const at = (on: Protocol) => ({ address: '127.0.0.1', port: on.host.port });

const items: Item[] = [
  [
    '31',
    'UDP and TCP give the same answers, over IPv4 and IPv6 (RFC 7766 s.5)',
    async (t, on) => {
      const sorted = ({ rcode, flags, answers, authorities, additionals }: WireMessage) => {
        const text = (records: WireMessage['answers']) =>
          records.map(({ owner, type, ttl, rdata }) => `${owner} ${type} ${ttl} ${rdata.toString('hex')}`).sort();
        return { rcode, flags, answers: text(answers), authorities: text(authorities), additionals: text(additionals) };
      };
      for (const [kind, , name, type] of KINDS) {
        if (kind === 'cut') continue;
        const asked = query(name, type, { edns: {} });
        const udp = sorted(await on.send(asked));
        // The TTL of what is forwarded may have counted down.
        const tidy = (one: typeof udp) => JSON.parse(JSON.stringify(one).replace(/ (299|300|59|60|29|30) /g, ' ttl '));
        for (const address of ['127.0.0.1', '::1'])
          for (const tcp of [false, true])
            t.same(tidy(sorted(await on.send(asked, { tcp, at: address }))), tidy(udp), `${kind} ${address} ${tcp}`);
      }
    },
  ],
  [
    '32',
    'additional records go before answers, and TC tells of missing answers only (RFC 2181 s.9)',
    async (t, on) => {
      const total = (await on.ask('crowd.svc.test', 'SRV', { tcp: true })).answers.length;
      t.equal(total, 60);
      for (const payload of [undefined, 512, 800, 1232]) {
        const reply = await on.ask('crowd.svc.test', 'SRV', payload ? { edns: { payload } } : {});
        t.ok(reply.flags.tc && reply.answers.length > 0 && reply.answers.length < total, `${payload}`);
        t.same(reply.additionals, [], 'no address while a record is missing');
      }
      const even = await on.ask('even.svc.test', 'SRV');
      t.match([even.flags.tc, even.answers.length], [false, 10], 'all records');
      t.ok(even.additionals.length < 10, 'but not all addresses, without TC');
    },
  ],
  [
    '33',
    'a cut reply is whole: header, question, OPT, whole records; never empty without TC',
    async (t, on) => {
      const total = { A: 60, SRV: 60 };
      for (const type of ['A', 'SRV'] as const)
        for (let payload = 512; payload <= 1232; payload += 16) {
          // The reader throws on anything that is not whole.
          const reply = await on.ask('crowd.svc.test', type, { edns: { payload } });
          if (reply.bytes.length > payload || reply.opts.length !== 1) t.fail(`${payload}: ${reply.bytes.length}`);
          if (reply.flags.tc !== reply.answers.length < total[type]) t.fail(`${payload}: TC`);
        }
    },
  ],
  [
    '34',
    'pipelined queries are all answered, matched by id, a slow one last (RFC 7766 s.6.2.1.1, s.7)',
    async (t, on) => {
      const said = on.upstream.behave;
      let release = () => {};
      on.upstream.behave = () => undefined;
      const heard = on.upstream.heard.length;
      const client = new TcpClient(at(on));
      const many = Array.from({ length: 50 }, (_, id) => query(NAME, 'A', { id }));
      client.socket.write(framed(query('slow.example', 'A', { id: 99 }), ...many));
      const replies = await client.take(50);
      t.same(
        replies.map(({ bytes }) => bytes[1]).sort((x, y) => x! - y!),
        Array.from({ length: 50 }, (_, id) => id),
      );
      await until(() => on.upstream.heard.length > heard);
      release = () => {
        on.upstream.behave = said;
      };
      release();
      t.equal((await client.take(51)).at(-1)?.bytes[1], 99, 'then the slow one');
      client.socket.destroy();
    },
  ],
  [
    '35',
    'length and message in any segmentation, several in one segment (s.8)',
    async (t, on) => {
      const two = framed(query(NAME, 'A', { id: 1 }), query(NAME, 'SRV', { id: 2 }));
      for (const cut of [1, 2, 3, 14, 15, two.length - 1]) {
        const client = new TcpClient(at(on));
        client.socket.setNoDelay(true);
        client.socket.write(two.subarray(0, cut));
        await new Promise((done) => setTimeout(done, 5));
        client.socket.write(two.subarray(cut));
        t.equal((await client.take(2)).length, 2, `cut after ${cut}`);
        client.socket.destroy();
      }
      const bytewise = new TcpClient(at(on));
      for (const byte of two) {
        bytewise.socket.write(Buffer.from([byte]));
        await new Promise((done) => setImmediate(done));
      }
      t.equal((await bytewise.take(2)).length, 2, 'byte by byte');
      bytewise.socket.destroy();
    },
  ],
  [
    '36',
    'after a half-close what was asked is answered, forwarded names too; many connections are served',
    async (t, on) => {
      const client = new TcpClient(at(on));
      client.socket.end(framed(query(NAME, 'A', { id: 1 }), query('half.example', 'A', { id: 2 })));
      t.equal((await client.take(2)).length, 2);
      await until(() => client.closed);
      const many = Array.from({ length: 200 }, () => new TcpClient(at(on)));
      for (const one of many) one.socket.write(framed(query(NAME, 'A')));
      for (const one of many) await one.take(1);
      t.equal(many.filter((one) => one.messages().length === 1).length, 200);
      for (const one of many) one.socket.destroy();
    },
  ],
  [
    '37',
    'over TCP at most 65535 bytes: whole records and TC beyond; a message without a byte closes',
    async (t, on) => {
      const reply = await on.ask('throng.svc.test', 'SRV', { tcp: true, edns: {} });
      t.ok(
        reply.flags.tc && reply.bytes.length <= 65_535 && reply.bytes.length > 65_000,
        `${reply.bytes.length} bytes`,
      );
      t.ok(reply.answers.length > 1_000 && reply.answers.length < 2_000);
      t.equal((await on.ask('throng.svc.test', 'A', { tcp: true })).answers.length, 2_000);
      const client = new TcpClient(at(on));
      client.socket.write(Buffer.concat([framed(query(NAME, 'A')), Buffer.from([0, 0]), framed(query(NAME, 'A'))]));
      await until(() => client.closed);
      t.equal(client.messages().length, 1, 'what came before it is answered');
    },
  ],
  [
    '39',
    'no UDP reply is longer than 1232 bytes',
    async (t, on) => {
      for (const type of ['A', 'SRV'] as const)
        for (const name of ['crowd', 'throng'])
          for (const payload of [1_400, 4_096, 65_535]) {
            const { bytes } = await on.ask(`${name}.svc.test`, type, { edns: { payload } });
            t.ok(bytes.length <= 1232, `${name} ${type} ${payload}: ${bytes.length}`);
          }
    },
  ],
];

prove(items);

t.test(
  '36 idle connections are closed after a time that is a setting, and there are no more of them than are allowed',
  async (t) => {
    const on = await new Protocol().start(t, 'auto', { top: 'tcp: { idleTimeout: 1s, maxConnections: 20 }' });
    const client = new TcpClient(at(on));
    client.socket.write(framed(query(NAME, 'A')));
    await client.take(1);
    await until(() => client.closed);
    t.equal(client.messages().length, 1);
    const many = Array.from({ length: 30 }, () => new TcpClient(at(on)));
    const last = new TcpClient(at(on));
    last.socket.write(framed(query(NAME, 'A')));
    await last.take(1);
    t.equal(last.messages().length, 1, 'the newest is served');
    await until(() => many.filter(({ closed }) => closed).length >= 10);
    for (const one of [...many, last]) one.socket.destroy();
  },
);
