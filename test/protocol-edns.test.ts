/** Items 24 to 30 and 38 (EDNS) and 45 to 49 (cookies) of the checklist. */
import t from 'tap';
import { type Item, KINDS, opt, option, prove, query, questionOf, raw } from './protocol-fixture.js';
import type { WireMessage } from './wire-message.js';

t.setTimeout(240_000);

const [EDE, COOKIE, KEEPALIVE] = [15, 10, 11];
const RD = 0x0100;
const NAME = 'web.svc.test';
const FORWARDED = 'www.example';
const codes = ({ opts }: WireMessage) => opts.flatMap(({ options }) => options.map(({ code }) => code));

const items: Item[] = [
  [
    '24',
    'an OPT in each reply to a query with OPT, exactly one, and none in others (RFC 6891 s.6.1.1, s.7)',
    async (t, on) => {
      // Twice: what comes from a cache the second time has it, too.
      for (const [kind, rcode, name, type] of KINDS)
        for (const tcp of [false, true])
          for (const again of ['', ', again']) {
            const [bare, edns] = [await on.ask(name, type, { tcp }), await on.ask(name, type, { tcp, edns: {} })];
            t.same([bare.rcode, bare.opts.length], [rcode, 0], `${kind}${again}${tcp ? ' over TCP' : ''}, without`);
            t.same([edns.rcode, edns.opts.length], [rcode, 1], `${kind}${again}${tcp ? ' over TCP' : ''}, with`);
          }
      for (const opcode of [1, 2, 4, 5]) {
        const asked = raw(opcode << 11, [1, 0, 0, 1], questionOf(NAME, 'A'), opt());
        t.match(await on.send(asked), { rcode: 4, opts: [{ version: 0 }] }, `opcode ${opcode}`);
      }
      t.match(await on.send(raw(RD, [2, 0, 0, 1], questionOf(NAME, 'A'), questionOf(NAME, 'A'), opt())), {
        rcode: 1,
        opts: [{}],
      });
    },
  ],
  [
    '25',
    'two OPT records, one with an owner, one out of its section: FORMERR (s.6.1.1, s.6.1.2)',
    async (t, on) => {
      const asked = questionOf(NAME, 'A');
      t.equal((await on.send(raw(RD, [1, 0, 0, 2], asked, opt(), opt()))).rcode, 1);
      t.equal((await on.send(raw(RD, [1, 0, 0, 1], asked, opt({ owner: [1, 0x61, 0] })))).rcode, 1);
      t.equal((await on.send(raw(RD, [1, 0, 1, 0], asked, opt()))).rcode, 1);
      t.equal((await on.send(raw(RD, [1, 0, 0, 1], asked, opt()))).rcode, 0);
    },
  ],
  [
    '26',
    'unknown options are ignored and never echoed (s.6.1.2)',
    async (t, on) => {
      for (const name of [NAME, FORWARDED])
        for (const code of [3, 5, 8, 12, 14, 65_001, 0, 65_535]) {
          const edns = { options: [{ code, data: Buffer.from([0, 1, 24, 0, 192, 0, 2]) }] };
          const reply = await on.ask(name, 'A', { edns });
          t.same([reply.rcode, codes(reply)], [0, []], `${name}, option ${code}`);
        }
    },
  ],
  [
    '27',
    'EDNS version 1 and above: BADVERS, our version 0, the question, no answer (s.6.1.3)',
    async (t, on) => {
      for (const name of [NAME, FORWARDED])
        for (const version of [1, 255]) {
          const asked = query(name, 'A', { edns: { version } });
          const reply = await on.send(asked);
          t.match(reply, { rcode: 16, opts: [{ version: 0 }], answers: [] }, `${name}, version ${version}`);
          t.same(reply.question, questionOf(name, 'A'));
        }
    },
  ],
  [
    '28',
    'a payload size below 512 means 512, and ours is 1232 (s.6.2.3)',
    async (t, on) => {
      const size = async (payload: number) =>
        (await on.ask('crowd.svc.test', 'SRV', { edns: { payload } })).bytes.length;
      const [none, zero, least] = [await size(100), await size(0), await size(512)];
      t.ok(none > 400 && none <= 512 && zero === none && least === none, `${none}, ${zero}, ${least}`);
      for (const payload of [1232, 4096, 65_535]) {
        const length = await size(payload);
        t.ok(length > 1100 && length <= 1232, `${payload}: ${length}`);
      }
      t.equal((await on.ask(NAME, 'A', { edns: { payload: 4096 } })).opts[0]?.payload, 1232);
    },
  ],
  [
    '29',
    'Z bits are ignored and zero in replies, DO is copied (s.6.1.4)',
    async (t, on) => {
      for (const name of [NAME, FORWARDED]) {
        const reply = await on.send(raw(RD, [1, 0, 0, 1], questionOf(name, 'A'), opt({ ttl: 0xffff })));
        t.match(reply, { rcode: 0, opts: [{ dnssecOk: true, z: 0 }] }, name);
        t.match(await on.send(raw(RD, [1, 0, 0, 1], questionOf(name, 'A'), opt({ ttl: 0x7fff }))), {
          rcode: 0,
          opts: [{ dnssecOk: false, z: 0 }],
        });
      }
    },
  ],
  [
    '30',
    'nothing of an OPT record of an upstream is kept with its answer',
    async (t, on) => {
      const said = on.upstream.behave;
      on.upstream.behave = ({ type }) => ({
        answers: [{ type, rdata: Buffer.from([192, 0, 2, 30]) }],
        options: Buffer.concat([
          option(COOKIE, Buffer.alloc(24, 1)),
          option(KEEPALIVE, Buffer.from([0, 10])),
          option(8, Buffer.from([0, 1, 24, 24, 192, 0, 2])),
          option(3, Buffer.from('ns1')),
          option(EDE, Buffer.from('\0\x04x')),
        ]),
      });
      const live = await on.ask('kept.example', 'A', { edns: {} });
      t.same(codes(live), [8, 3, EDE], 'the first one gets what is meant for clients');
      for (let i = 0; i < 5; i++) t.same(codes(await on.ask('kept.example', 'A', { edns: {} })), [], 'from the cache');
      on.upstream.behave = said;
    },
  ],
  [
    '38',
    'the keepalive option is ignored over UDP, and harmless over TCP (RFC 7828)',
    async (t, on) => {
      const edns = { options: [{ code: KEEPALIVE, data: Buffer.alloc(0) }] };
      for (const name of [NAME, FORWARDED]) {
        const udp = await on.ask(name, 'A', { edns });
        t.same([udp.rcode, codes(udp)], [0, []], name);
        const heard = on.upstream.heard.length;
        t.match(await on.ask(`k${heard}.example`, 'A', { edns }), { rcode: 0 });
        t.equal(on.upstream.heard.at(-1)?.bytes.includes(option(KEEPALIVE)), false, 'it is not passed on');
        t.match(await on.ask(name, 'A', { edns, tcp: true }), { rcode: 0, answers: [{}] });
      }
    },
  ],
  [
    '45 to 49',
    'cookies are off: the option is ignored whatever it holds, not echoed, not passed on',
    async (t, on) => {
      for (const length of [8, 16, 24, 40])
        for (const name of [NAME, `cookie-${length}.example`]) {
          const edns = { options: [{ code: COOKIE, data: Buffer.alloc(length, 7) }] };
          const reply = await on.ask(name, 'A', { edns });
          t.same([reply.rcode, codes(reply)], [0, []], `${name}, ${length} bytes`);
        }
      t.equal(
        on.upstream.heard.some(({ bytes }) => bytes.includes(Buffer.alloc(8, 7))),
        false,
      );
      const none = await on.send(raw(RD, [0, 0, 0, 1], opt({ data: option(COOKIE, Buffer.alloc(8)) })));
      t.match(
        none,
        { rcode: 1, opts: [{ options: [] }] },
        '47: without cookies a message without a question is FORMERR',
      );
    },
  ],
];

prove(items);
