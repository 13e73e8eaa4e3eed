/** Cases from the field that concern messages, sockets and the end of the process, on the real program. */
import { createSocket } from 'node:dgram';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { TYPE } from '../../src/dns/constants.js';
import { Protocol, query, SERVICES, TRANSPORTS } from '../protocol-fixture.js';
import { framed, pause, TcpClient } from '../server-fixture.js';
import { readMessage, readSrv, type WireMessage } from '../wire-message.js';
import { openSockets, until } from './program.js';

t.setTimeout(240_000);

const of = ({ program }: Protocol) => {
  const { pid } = program.child;
  return {
    descriptors: openSockets(pid),
    resident: Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
  };
};

const CASES: readonly (readonly [title: string, body: (t: Test, on: Protocol) => Promise<void>])[] = [
  [
    'D1, D5, D6, D23: one rcode for a name whatever the type',
    async (t, on) => {
      for (const [name, rcode] of [
        ['web', 0],
        ['_web._tcp', 0],
        ['_tcp', 0],
        ['empty', 0],
        ['nope', 3],
      ] as const)
        for (const type of [TYPE.A, TYPE.AAAA, TYPE.SRV, 16, 1_000]) {
          const reply = await on.ask(`${name}.svc.test`, type);
          t.equal(reply.rcode, rcode, `${name} ${type}`);
          t.equal(reply.authorities.length, reply.answers.length > 0 ? 0 : 1, 'an SOA where there is no answer');
        }
    },
  ],
  [
    'D9: what one client may take changes nothing for the next, fresh and stale, of zones and of elsewhere',
    async (t, on) => {
      const before = on.upstream.behave;
      const many = Array.from({ length: 100 }, (_, i) => ({ type: 1, ttl: 1, rdata: Buffer.from([192, 0, 2, i]) }));
      on.upstream.behave = ({ via }) => (via === 'tcp' ? { answers: many } : { answers: many.slice(0, 9), tc: true });
      const ways: [string, { tcp?: boolean; edns?: { payload: number } }, number][] = [
        ['TCP', { tcp: true }, 65_535],
        ['no EDNS', {}, 512],
        ['512', { edns: { payload: 512 } }, 512],
        ['4096', { edns: { payload: 4_096 } }, 1_232],
      ];
      const orders = ways.flatMap((first) => ways.flatMap((second) => [[first, second, ...ways]]));
      for (const name of ['crowd.svc.test', 'much.example', 'stale.example']) {
        const total = name === 'crowd.svc.test' ? 60 : 100;
        if (name === 'stale.example') {
          await on.ask(name, 'A', { tcp: true });
          on.upstream.behave = () => ({ rcode: 2 });
          await pause(1_100);
        }
        for (const order of orders)
          for (const [way, asking, limit] of order) {
            const reply = await on.ask(name, 'A', asking);
            const whole = reply.answers.length === total;
            if (
              reply.bytes.length > limit ||
              reply.flags.tc === whole ||
              (limit > 60_000 && !whole) ||
              (limit === 512 && whole)
            )
              t.fail(
                `${name} ${way}: ${reply.bytes.length} bytes, ${reply.answers.length} answers, TC ${reply.flags.tc}`,
              );
          }
      }
      on.upstream.behave = before;
      t.pass('all orders');
    },
  ],
  [
    'D13: no datagram and no stream, of names of zones or of elsewhere, ends it or stays in memory',
    async (t, on) => {
      const samples = ['web.svc.test', 'www.example', 'localhost', '1.0.0.10.in-addr.arpa'].map((name) =>
        query(name, 'SRV', { edns: { options: [{ code: 8, data: Buffer.from([0, 1, 24, 0, 192, 0, 2]) }] } }),
      );
      const socket = createSocket('udp4');
      socket.on('error', () => {});
      const { port } = on.host;
      const send = (bytes: Uint8Array) => new Promise((done) => socket.send(bytes, port, '127.0.0.1', done));
      let random = 4_711;
      const next = (below: number) => (random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0) % below;
      const round = async (count: number) => {
        for (let i = 0; i < count; i++) {
          const mutant = Buffer.from(samples[i % samples.length]!);
          for (let flips = next(5); flips > 0; flips--) mutant[next(mutant.length)] = next(256);
          await send(next(6) === 0 ? mutant.subarray(0, next(mutant.length + 1)) : mutant);
        }
        await until('an answer', async () => (await on.ask('web.svc.test', 'A')).rcode === 0);
      };
      for (const sample of samples) for (let i = 0; i <= sample.length; i++) await send(sample.subarray(0, i));
      await round(10_000);
      const before = of(on);
      await round(20_000);
      for (let i = 0; i < 200; i++) {
        const mutant = Buffer.from(framed(samples[i % 4]!, samples[(i + 1) % 4]!));
        for (let flips = next(6); flips > 0; flips--) mutant[next(mutant.length)] = next(256);
        await new Promise<void>((done) => {
          const client = connect(port, '127.0.0.1', () => client.end(mutant.subarray(0, next(mutant.length + 1))));
          client.on('error', () => {});
          client.on('close', () => done());
          client.resume();
          setTimeout(() => client.destroy(), 20);
        });
      }
      // Connections are taken in their order: those before this one have been seen.
      t.match(await on.ask('web.svc.test', 'A', { tcp: true }), { rcode: 0 });
      await until('descriptors', () => of(on).descriptors <= before.descriptors + 4);
      t.ok(of(on).resident < before.resident + 40, `${before.resident} and ${of(on).resident} MiB`);
      t.ok(on.program.alive);
      socket.close();
    },
  ],
  [
    'D14: connections that are reset at any moment leave nothing behind',
    async (t, on) => {
      const asked = framed(query('web.svc.test', 'A'), query('throng.svc.test', 'A'), query('never1.example', 'A'));
      const before = of(on).descriptors;
      const behave = on.upstream.behave;
      on.upstream.behave = () => undefined;
      for (let i = 0; i < 1_000; i += 20)
        await Promise.all(
          Array.from({ length: 20 }, (_, n) => {
            return new Promise<void>((done) => {
              const client = connect(on.host.port, '127.0.0.1', () => {
                // Right away; after a length; in a message; with all asked and nothing read; after a half-close.
                const cut = [0, 2, 9, asked.length, asked.length][n % 5]!;
                if (cut > 0) client.write(asked.subarray(0, cut));
                if (n % 5 === 4) client.end(() => client.resetAndDestroy());
                else client.resetAndDestroy();
              });
              client.on('error', () => {});
              client.on('close', () => done());
            });
          }),
        );
      on.upstream.behave = behave;
      t.match(await on.ask('web.svc.test', 'A', { tcp: true }), { rcode: 0 });
      await until('no descriptor is left', () => of(on).descriptors <= before + 4);
    },
  ],
  [
    'D24: a TTL never rises without news, never is 0, and is the configured one when stale',
    async (t, on) => {
      for (let i = 0; i < 5; i++)
        t.same(new Set((await on.ask('web.svc.test', 'A')).answers.map(({ ttl }) => ttl)), new Set([5]));
      let last = 300;
      for (let i = 0; i < 30; i++) {
        const [answer] = (await on.ask('down.example', 'A')).answers;
        if (answer!.ttl > last || answer!.ttl === 0) t.fail(`${last}, then ${answer!.ttl}`);
        last = answer!.ttl;
        await pause(50);
      }
      t.ok(last < 300, 'it counts down');
    },
  ],
  [
    'D44, D45: every SRV target is written in full, and is what its own address records say',
    async (t, on) => {
      for (const name of ['web', 'six', 'pair', 'even']) {
        const reply = await on.ask(`${name}.svc.test`, 'SRV', { tcp: true });
        for (const record of reply.answers) {
          const { target } = readSrv(reply, record);
          t.equal(record.rdata.length, 6 + target.length + 2, 'in full');
          const addresses = (message: WireMessage) => message.answers.map(({ rdata }) => rdata.toString('hex'));
          const own = [...addresses(await on.ask(target, 'A')), ...addresses(await on.ask(target, 'AAAA'))];
          const additional = reply.additionals.filter(({ owner }) => owner === target);
          t.same(
            own,
            additional.map(({ rdata }) => rdata.toString('hex')),
            target,
          );
        }
      }
    },
  ],
  [
    'D47: each of ten equal endpoints comes first in its turn, in any transport',
    async (t, on) => {
      for (const [type, tcp] of [
        ['A', false],
        ['SRV', false],
        ['A', true],
      ] as const) {
        const firsts = new Map<string, number>();
        const asked = Array.from({ length: 2_000 }, (_, id) => query('even.svc.test', type, { id }));
        const client = new TcpClient({ address: '127.0.0.1', port: on.host.port });
        if (tcp) client.socket.write(framed(...asked));
        if (tcp) await client.take(2_000);
        const replies = tcp ? client.messages() : await inTurn(on, asked);
        client.socket.destroy();
        for (const reply of replies) {
          const first = readMessage(reply).answers[0]!.rdata.toString('hex');
          firsts.set(first, (firsts.get(first) ?? 0) + 1);
        }
        const chi = [...firsts.values()].reduce((sum, count) => sum + (count - 200) ** 2 / 200, 0);
        // Nine degrees of freedom: one in a million.
        t.ok(firsts.size === 10 && chi < 45, `${type} ${tcp}: ${[...firsts.values()].join()}`);
      }
    },
  ],
  [
    'D56: A and AAAA at once from one socket are answered once each, with equal ids, too',
    async (t, on) => {
      for (const [name, sameId] of [
        ['web.svc.test', false],
        ['web.svc.test', true],
        ['pairs.example', false],
        ['pairs.example', true],
      ] as const) {
        const rounds = 500;
        const socket = createSocket('udp4');
        const seen = new Map<string, number>();
        socket.on('message', (reply) => {
          const message = readMessage(reply);
          const key = `${message.id} ${message.question.readUInt16BE(message.question.length - 4)}`;
          seen.set(key, (seen.get(key) ?? 0) + 1);
        });
        for (let i = 0; i < rounds; i++) {
          const pair = [query(name, 'A', { id: i * 2 }), query(name, 'AAAA', { id: i * 2 + (sameId ? 0 : 1) })];
          await Promise.all(
            pair.map((one) => new Promise((done) => socket.send(one, on.host.port, '127.0.0.1', done))),
          );
          if (i % 50 === 49) await until('the pairs', () => seen.size === (i + 1) * 2);
        }
        t.same([seen.size, [...seen.values()].filter((count) => count !== 1)], [rounds * 2, []], `${name} ${sameId}`);
        socket.close();
      }
    },
  ],
];

/** One after the other from one socket. */
async function inTurn(on: Protocol, asked: readonly Buffer[]): Promise<Buffer[]> {
  const socket = createSocket('udp4');
  const replies: Buffer[] = [];
  for (const one of asked) {
    const reply = new Promise<Buffer>((done) => socket.once('message', done));
    socket.send(one, on.host.port, '127.0.0.1');
    replies.push(await reply);
  }
  socket.close();
  return replies;
}

for (const transport of TRANSPORTS)
  t.test(transport, async (t) => {
    const on = await new Protocol().start(t, transport);
    for (const [title, body] of CASES) await t.test(title, (t) => body(t, on));
  });

for (const transport of TRANSPORTS)
  t.test(
    `${transport}: D53: a stop under load, with idle connections and everybody frozen, is clean and short`,
    async (t) => {
      const on = await new Protocol().start(t, transport);
      on.list({ ...SERVICES, last: { endpoints: [{ id: 'last', address: '10.0.8.8', port: 1 }] } });
      await until('the last service', async () => (await on.ask('last.svc.test', 'A')).rcode === 0);
      on.upstream.behave = () => undefined;
      const idle = Array.from({ length: 100 }, () => new TcpClient({ address: '127.0.0.1', port: on.host.port }));
      for (const client of idle) client.socket.write(framed(query('web.svc.test', 'A')));
      for (const client of idle) await client.take(1);
      const pending = new TcpClient({ address: '127.0.0.1', port: on.host.port });
      pending.socket.write(framed(query('frozen.example', 'A', { id: 7 }), query('web.svc.test', 'A', { id: 8 })));
      await pending.take(1);
      const socket = createSocket('udp4');
      socket.on('error', () => {});
      let sending = true;
      const load = (async () => {
        for (let i = 0; sending; i++) {
          socket.send(query('web.svc.test', 'SRV', { id: i & 0xffff }), on.host.port, '127.0.0.1');
          if (i % 20 === 0) await pause(1);
        }
      })();
      await pause(200);
      on.program.kill('SIGTERM');
      t.equal(await on.program.ended, 0, 'it says that all is well');
      sending = false;
      await load;
      socket.close();
      t.match(
        pending
          .messages()
          .map((message) => readMessage(message))
          .map(({ id, rcode }) => `${id} ${rcode}`),
        ['8 0', '7 2'],
        'who still waited was told',
      );
      const folder = join(on.host.folder, 'state', 'snapshots');
      const saved = readdirSync(folder)
        .map((name) => readFileSync(join(folder, name), 'utf8'))
        .join();
      t.match(saved, /10\.0\.8\.8/, 'the snapshot is whole');
      t.notMatch(readdirSync(folder).join(), /tmp/);
      for (const client of [...idle, pending]) client.socket.destroy();
    },
  );
