/** Messages that are no plain query, and whatever else comes in. */
import fc from 'fast-check';
import t from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { decode, endpoints, row, SYNCED, service, smallWorld, World } from './answers-fixture.js';

t.test('messages that are no plain query', async (t) => {
  const world = smallWorld();
  const plain = encodeQuery({ id: 0xabcd, name: 'web.svc.internal', type: TYPE.A, edns: {} })!;
  const changed = (change: (bytes: Uint8Array) => void, base = plain) => {
    const bytes = base.slice();
    change(bytes);
    return bytes;
  };
  const withRecords = (records: number[][], counts: { an?: number; ns?: number; ar?: number } = {}) => {
    const base = encodeQuery({ id: 0xabcd, name: 'web.svc.internal', type: TYPE.A })!;
    const bytes = Uint8Array.from([...base, ...records.flat()]);
    bytes[7] = counts.an ?? 0;
    bytes[9] = counts.ns ?? 0;
    bytes[11] = counts.ar ?? 0;
    return bytes;
  };
  const OPT = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
  const A = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4];
  const ask = (bytes: Uint8Array) => {
    const { rcode, questions, opts, answers } = decode(world.send(bytes));
    return { rcode, questions, opts, answers: answers.length };
  };

  t.test('responses and scraps are dropped', async (t) => {
    t.equal(world.send(changed((bytes) => (bytes[2]! |= 0x80))).length, 0);
    for (let length = 0; length < 12; length++) t.equal(world.send(plain.slice(0, length)).length, 0);
  });

  t.test('the header comes back with RD and CD, without Z and AD', async (t) => {
    const reply = world.send(changed((bytes) => (bytes[3] = 0x70)));
    t.same([...reply.subarray(0, 4)], [0xab, 0xcd, 0x85, 0x10]);
    const silent = world.send(changed((bytes) => (bytes[2] = 0)));
    t.same([...silent.subarray(0, 4)], [0xab, 0xcd, 0x84, 0x00]);
  });

  t.test('not one question is FORMERR, with OPT when asked', async (t) => {
    const header = encodeQuery({ name: '', type: 0 })!.slice(0, 12);
    t.same(ask(changed((bytes) => (bytes[5] = 0), header)), { rcode: 1, questions: 0, opts: 0, answers: 0 });
    const none = Uint8Array.from([...header, ...OPT]);
    t.same(
      ask(
        changed(
          (bytes) => bytes.set([0, 1], 10),
          changed((bytes) => (bytes[5] = 0), none),
        ),
      ),
      {
        rcode: 1,
        questions: 0,
        opts: 1,
        answers: 0,
      },
    );
    const question = plain.slice(12, plain.length - OPT.length);
    const two = Uint8Array.from([...plain.slice(0, 12), ...question, ...question, ...OPT]);
    t.same(ask(changed((bytes) => (bytes[5] = 2), two)), { rcode: 1, questions: 0, opts: 1, answers: 0 });
  });

  t.test('a bad question is FORMERR with the header alone', async (t) => {
    const header = [0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const bad: Record<string, number[]> = {
      pointer: [0xc0, 0x0c, 0, 1, 0, 1],
      'label type 0x40': [0x41, 0x61, 0, 0, 1, 0, 1],
      'label type 0x80': [0x81, 0x61, 0, 0, 1, 0, 1],
      'cut in a label': [5, 0x61],
      'cut in the class': [1, 0x61, 0, 0, 1, 0],
      'over 255 octets': [...new Array(127).fill([1, 0x61]).flat(), 1, 0x61, 0, 0, 1, 0, 1],
    };
    for (const [what, question] of Object.entries(bad)) {
      const reply = world.send(Uint8Array.from([...header, ...question]));
      t.same([...reply], [0xab, 0xcd, 0x81, 0x01, 0, 0, 0, 0, 0, 0, 0, 0], what);
    }
    const longest = [...new Array(127).fill([1, 0x61]).flat(), 0, 0, 1, 0, 1];
    t.equal(decode(world.send(Uint8Array.from([...header, ...longest]))).rcode, 5, '255 octets are a name');
  });

  t.test('other opcodes are NOTIMP without question, with OPT when asked', async (t) => {
    for (const opcode of [1, 2, 4, 5, 6, 15]) {
      const reply = world.send(changed((bytes) => (bytes[2] = (opcode << 3) | 1)));
      t.equal(reply[2], 0x80 | (opcode << 3) | 1);
      t.same(ask(changed((bytes) => (bytes[2] = opcode << 3))), { rcode: 4, questions: 0, opts: 1, answers: 0 });
    }
  });

  t.test('transfers, other classes and meta types', async (t) => {
    const rcode = (type: number, class_ = 1) => world.ask('web.svc.internal', type, { class: class_, edns: {} }).rcode;
    t.same(
      [rcode(TYPE.AXFR), rcode(TYPE.IXFR), rcode(TYPE.A, 3), rcode(TYPE.A, 255), rcode(TYPE.TXT, 4)],
      [5, 5, 5, 5, 5],
    );
    t.same([rcode(TYPE.OPT), rcode(TYPE.TSIG), rcode(TYPE.TKEY)], [1, 1, 1]);
  });

  t.test('EDNS (RFC 6891)', async (t) => {
    const ok = { rcode: 0, questions: 1, opts: 1, answers: 2 };
    const bad = { rcode: 1, questions: 1, opts: 1, answers: 0 };
    t.same(ask(withRecords([OPT], { ar: 1 })), ok);
    t.same(ask(withRecords([OPT, OPT], { ar: 2 })), bad, 'two OPT records');
    t.same(ask(withRecords([[1, 0x61, ...OPT]], { ar: 1 })), { ...bad, opts: 0 }, 'an owner that is not the root');
    t.same(ask(withRecords([OPT], { ns: 1 })), { ...bad, opts: 0 }, 'outside the additional section');
    t.same(ask(withRecords([[...OPT.slice(0, 10), 3, 0, 10, 0]], { ar: 1 })), bad, 'half an option');
    t.same(
      ask(withRecords([[...OPT.slice(0, 10), 4, 0, 10, 0, 8]], { ar: 1 })),
      bad,
      'an option longer than the record',
    );
    t.same(ask(withRecords([[...OPT.slice(0, 10), 5, 0xff, 0xf0, 0, 1, 7]], { ar: 1 })), ok, 'an unknown option');
    const version = world.ask('web.svc.internal', 'A', { edns: { version: 1, dnssecOk: true } });
    t.match(version, { rcode: 16, questions: 1, opts: 1, answers: [], opt: { version: 0, dnssecOk: true } });
    t.equal(world.ask('web.svc.internal', 'A', { edns: { dnssecOk: true } }).opt?.dnssecOk, true);
    t.equal(world.ask('web.svc.internal', 'A', { edns: { payload: 9000 } }).opt?.payload, 1232);
  });

  t.test('records in a query are skipped when whole, FORMERR when not; bytes behind them are ignored', async (t) => {
    const ok = { rcode: 0, questions: 1, opts: 0, answers: 2 };
    t.same(ask(withRecords([A], { an: 1 })), ok);
    t.same(ask(withRecords([A, A, OPT], { an: 1, ns: 1, ar: 1 })), { ...ok, opts: 1 });
    t.same(ask(withRecords([A.slice(0, -1)], { an: 1 })), { ...ok, rcode: 1, answers: 0 });
    t.same(ask(withRecords([], { ar: 1 })), { ...ok, rcode: 1, answers: 0 });
    t.same(ask(withRecords([[1, 2, 3, 4]])), ok);
  });
});

t.test('whatever comes in: no throw, no reply to a response, a sound reply within the limit', async (t) => {
  const world = new World();
  const status = world.table.allocStatus();
  world.table.setStatus(status, { code: 3, text: 'stale 42 s' });
  world.zone('svc.internal', [service('web', endpoints(40), { status }), service('one', [row('10.0.0.1', 80)])]);
  world.zone('cold.test').setState({ ...SYNCED, synced: false });
  world.zone('shut.test', [], { allow: [] });

  const check = (query: Uint8Array, transport: 'udp' | 'tcp') => {
    const reply = world.send(query, { transport });
    if (query.length < 12 || (query[2]! & 0x80) !== 0) return reply.length === 0;
    const { bytes, errors, questions, opts, flags, answers } = decode(reply);
    const echoed = questions === 0 || Buffer.compare(query.subarray(12, 17), bytes.subarray(12, 17)) === 0;
    const limit = transport === 'tcp' ? 65_535 : opts > 0 ? 1232 : 512;
    const sound = errors.length === 0 && bytes.length <= limit && opts <= 1 && flags.qr === 1;
    const sameId = bytes[0] === query[0] && bytes[1] === query[1];
    return sound && echoed && sameId && (answers.length === 0 || questions === 1);
  };

  const names = [
    'web.svc.internal',
    'one.svc.internal',
    'nope.svc.internal',
    'web.cold.test',
    'x.shut.test',
    'com',
    '1.0.0.10.in-addr.arpa',
  ];
  const valid = fc
    .record({
      id: fc.nat(65_535),
      name: fc.constantFrom(...names),
      type: fc.constantFrom(1, 2, 6, 12, 16, 28, 33, 41, 252, 255, 1000),
      class: fc.constantFrom(1, 1, 1, 3, 255),
      edns: fc.option(
        fc.record({
          payload: fc.constantFrom(0, 512, 700, 1232, 4096, 65_535),
          version: fc.constantFrom(0, 0, 1),
          dnssecOk: fc.boolean(),
          options: fc.array(fc.record({ code: fc.nat(20), data: fc.uint8Array({ maxLength: 12 }) }), { maxLength: 3 }),
        }),
        { nil: undefined },
      ),
    })
    .map(({ edns, ...query }) => ({ edns, bytes: encodeQuery(edns ? { ...query, edns } : query)! }));
  const transports = fc.constantFrom('udp' as const, 'tcp' as const);

  t.test('valid queries: an OPT exactly when asked, the question byte for byte', async () => {
    fc.assert(
      fc.property(valid, transports, ({ edns, bytes }, transport) => {
        const reply = decode(world.send(bytes, { transport }));
        const end = 12 + 4 + bytes.subarray(12).indexOf(0) + 1;
        const echoed = Buffer.compare(bytes.subarray(12, end), reply.bytes.subarray(12, end)) === 0;
        return check(bytes, transport) && reply.opts === (edns ? 1 : 0) && echoed;
      }),
      { numRuns: 2000 },
    );
  });

  t.test('every prefix of a valid query', async () => {
    fc.assert(
      fc.property(valid, transports, ({ bytes }, transport) =>
        Array.from(bytes, (_, length) => check(bytes.slice(0, length), transport)).every(Boolean),
      ),
      { numRuns: 100 },
    );
  });

  t.test('flipped bits', async () => {
    const flips = fc.array(fc.nat(8 * 100), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(valid, flips, transports, ({ bytes }, flips, transport) => {
        const flipped = bytes.slice();
        for (const bit of flips) flipped[(bit >> 3) % flipped.length]! ^= 1 << (bit & 7);
        return check(flipped, transport);
      }),
      { numRuns: 5000 },
    );
  });

  t.test('random bytes, and random bytes behind a plausible header', async () => {
    const header = fc.tuple(fc.nat(0x7f), fc.nat(2), fc.nat(2), fc.nat(2), fc.nat(3));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), transports, (bytes, transport) => check(bytes, transport)),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(header, fc.uint8Array({ maxLength: 80 }), transports, ([flags, qd, an, ns, ar], tail, transport) =>
        check(Uint8Array.from([1, 2, flags & 1, 0, 0, qd, 0, an, 0, ns, 0, ar, ...tail]), transport),
      ),
      { numRuns: 5000 },
    );
  });

  t.test('pointers in records: to themselves, in circles, in long chains', async (t) => {
    const question = encodeQuery({ name: 'one.svc.internal', type: TYPE.A })!;
    const fixed = [0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
    const end = question.length;
    const chain = Array.from({ length: 127 }, (_, i) => [0xc0 | ((end + i * 2) >> 8), (end + i * 2) & 255]).flat();
    for (const owner of [[0xc0 | (end >> 8), end & 255], [0xc0, end + 2, ...fixed, 0xc0, end], chain]) {
      const bytes = Uint8Array.from([...question, ...owner, ...fixed]);
      bytes[11] = 1;
      t.ok(check(bytes, 'udp'));
      t.equal(decode(world.send(bytes)).answers.length <= 1, true);
    }
  });
});
