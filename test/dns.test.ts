import { isIPv6 } from 'node:net';
import dns2 from 'dns2';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import t from 'tap';
import { addressBytes, familyBytes, prefixBytes, reverseName, targetLabel } from '../src/dns/addresses.js';
import { ByteWriter } from '../src/dns/byte-writer.js';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { isHostLabel, joinName, nameToWire, wireToName } from '../src/dns/names.js';
import { IS_RESPONSE, MALFORMED, PARSED, Query, TOO_SHORT } from '../src/dns/query.js';
import { record, soaRdata, ttlSeconds, txtRdata, writeSrv } from '../src/dns/records.js';

const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');

t.test('names', async (t) => {
  t.equal(hex(nameToWire('Web.svc')), '035765620373766300');
  t.equal(hex(nameToWire('web.svc.')), '037765620373766300');
  t.equal(hex(nameToWire('.')), '00');
  for (const bad of ['a..b', '.a', 'ä.b', `${'x'.repeat(64)}.a`, `${'x.'.repeat(127)}x`])
    t.equal(nameToWire(bad), undefined);
  t.equal(nameToWire(`${'x.'.repeat(126)}x`)?.length, 255);
  t.equal(joinName(['a'], nameToWire(`${'x.'.repeat(126)}x`)!), undefined);
  t.equal(joinName([], Uint8Array.of(0))?.length, 1);

  t.equal(wireToName(Buffer.from('0477656220012e015c02ff4100', 'hex')), 'web\\032.\\..\\\\.\\255A');
  t.equal(wireToName(Uint8Array.of(0)), '.');
  for (const bad of ['', '03', '0377', '03776562', 'c00c', '4161', '0161']) {
    t.equal(wireToName(Buffer.from(bad, 'hex')), undefined, bad);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(300), (bytes, at) => {
      wireToName(bytes, at);
    }),
  );

  const yes = ['a', 'a-b', '0', 'x'.repeat(63)];
  const no = ['', '-a', 'a-', 'A', 'a_b', 'ä', 'x'.repeat(64), 'a.b'];
  t.same([...yes, ...no].filter(isHostLabel), yes);
});

t.test('addresses', async (t) => {
  t.equal(hex(addressBytes('10.0.0.1')), '0a000001');
  t.equal(hex(addressBytes('fd00::1')), 'fd000000000000000000000000000001');
  t.equal(hex(addressBytes('::ffff:10.0.0.1')), '0a000001', 'v4-mapped is IPv4');
  for (const bad of ['', '10.0.0', '10.0.0.256', '10.0.0.01', '1.2.3.4.5', 'fe80::1%eth0', 'web', ':::', '1']) {
    t.equal(addressBytes(bad), undefined, bad);
  }
  const label = (text: string) => targetLabel(addressBytes(text)!);
  t.same(['10.0.0.1', 'fd00::1', '::', '2001:db8::ff:0'].map(label), [
    '10-0-0-1',
    'fd00-0-0-0-0-0-0-1',
    '0-0-0-0-0-0-0-0',
    '2001-db8-0-0-0-0-ff-0',
  ]);
  t.equal(wireToName(reverseName(addressBytes('10.1.2.3')!)), '3.2.1.10.in-addr.arpa');
  t.equal(
    wireToName(reverseName(addressBytes('2001:db8::12')!)),
    '2.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa',
  );
  const prefix = (text: string) => {
    const found = prefixBytes(text);
    return found && `${hex(found.network)}/${hex(found.mask)}`;
  };
  t.same(['10.1.2.3/8', '10.0.0.1', '0.0.0.0/0', '10.0.0.0/12', '::ffff:10.0.0.0/104', '::1/128'].map(prefix), [
    '0a000000/ff000000',
    '0a000001/ffffffff',
    '00000000/00000000',
    '0a000000/fff00000',
    '0a000000/ff000000',
    `${'0'.repeat(31)}1/${'f'.repeat(32)}`,
  ]);
  for (const bad of ['10.0.0.0/33', '::/129', 'x/8', '10.0.0.0/', '10.0.0.0/-1', '::ffff:10.0.0.0/8']) {
    t.equal(prefixBytes(bad), undefined, bad);
  }
});

t.test('IPv6 addresses are read as the operating system reads them', async (t) => {
  const odd = [':', '::', ':::', '1::', '::1', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:', ':1:2:3:4:5:6:7'];
  odd.push('1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7::', '::2:3:4:5:6:7:8', '1::2:3:4:5:6:7:8', 'g::');
  odd.push('::ffff:192.0.2.1', '192.0.2.1::', '1:2:3:4:5:6:192.0.2.1', '1:2:3:4:5:6:7:192.0.2.1');
  odd.push('::192.0.2', '::192.0.2.256', '::01.2.3.4', '12345::', 'FE80::A', '::1 ', ' ::1', '[::1]', '::192.0.2.1:1');
  const same = (text: string): void => {
    const bytes = familyBytes(text);
    const expected = isIPv6(text) ? Uint8Array.from(ipaddr.IPv6.parse(text).toByteArray()) : undefined;
    if (text.includes(':')) t.same(bytes, expected, text);
  };
  for (const text of odd) same(text);
  const piece = fc.constantFrom(':', '::', ':', '1', 'ff', '0', 'abcd', '10000', '192.0.2.1', '%', 'x');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 18 }), (pieces) => {
      const text = pieces.join('');
      return !text.includes(':') || text.includes('%') || isIPv6(text) === (familyBytes(text)?.length === 16);
    }),
    { numRuns: 2000 },
  );
  fc.assert(fc.property(fc.ipV6(), (text) => isIPv6(text) === (familyBytes(text) !== undefined)));
  const compatible = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1);
  t.same(familyBytes('::192.0.2.1'), compatible, 'not the same as a v4-mapped one (RFC 4291 s.2.5.5)');
  t.equal(familyBytes('fe80::1%1'), undefined, 'DNS has no room for scopes');
});

t.test('records read by dns2 are what was written', async (t) => {
  const parse = (rr: Uint8Array) => {
    const head = encodeQuery({ name: 'x.test', type: 1 })!;
    head[2] = 0x84;
    head[7] = 1;
    // biome-ignore lint/suspicious/noExplicitAny: dns2 declares less than it gives.
    const packet = dns2.Packet.parse(Buffer.from([...head, ...rr])) as any;
    t.same(packet.errors, []);
    return packet.answers[0];
  };
  const target = nameToWire('h.x.test')!;
  t.match(parse(record(TYPE.A, 5, addressBytes('10.0.0.1')!)), { name: 'x.test', ttl: 5, address: '10.0.0.1' });
  const srv = new ByteWriter(4);
  writeSrv(srv, 7, { priority: 1, weight: 65_535, port: 80, target });
  t.match(parse(srv.copy()), { ttl: 7, priority: 1, weight: 65_535, port: 80, target: 'h.x.test' });
  const soa = { mname: target, rname: target, serial: 4_000_000_000, refresh: 1, retry: 2, expire: 3, minimum: 4 };
  t.match(parse(record(TYPE.SOA, 1, soaRdata(soa))), { primary: 'h.x.test', serial: 4_000_000_000, minimum: 4 });
  const txt = (strings: string[]) => parse(record(TYPE.TXT, 1, txtRdata(strings))).data;
  t.same(txt(['a', '', 'é']), ['a', '', 'é']);
  t.same(txt(['x'.repeat(300)]), ['x'.repeat(255), 'x'.repeat(45)]);
  t.same(txtRdata([]), Uint8Array.of(0), 'no string is one empty string');
  t.ok(txtRdata(Array.from({ length: 100 }, () => 'x'.repeat(200))).length <= 4096);
  t.same([0, 400, 1500, 2000, 1e15].map(ttlSeconds), [1, 1, 2, 2, 0x7fffffff]);
});

t.test('the parser of queries', async (t) => {
  const query = new Query();
  const full = {
    id: 7,
    name: 'wEb.svc.internal',
    type: TYPE.SRV,
    edns: { payload: 4096, dnssecOk: true, options: [{ code: 10, data: new Uint8Array(8) }] },
  };
  const bytes = encodeQuery(full)!;

  t.equal(query.parse(bytes, bytes.length), PARSED);
  t.same([...query.labels.subarray(0, query.labelCount)], [12, 16, 20]);
  const { opcode, questionEnd, nameLength, type, class: class_, edns, payload, dnssecOk, version } = query;
  t.same([opcode, questionEnd, nameLength, type, class_], [0, 34, 18, 33, 1]);
  t.same([edns, payload, dnssecOk, version], [true, 4096, true, 0]);

  t.equal(query.parse(encodeQuery({ name: '', type: 2 })!, 17), PARSED);
  t.same([query.labelCount, query.nameLength, query.edns], [0, 1, false], 'nothing is left of the query before');

  for (let length = 0; length < bytes.length; length++) {
    t.equal(query.parse(bytes, length), length < 12 ? TOO_SHORT : MALFORMED, `cut at ${length}`);
    t.equal(query.questionEnd, length < 34 ? 12 : 34);
  }
  bytes[2] = 0x80;
  t.equal(query.parse(bytes, bytes.length), IS_RESPONSE);

  t.test('agrees with dns2 on what a well-formed query is', async (t) => {
    const labels = fc.array(fc.stringMatching(/^[a-zA-Z0-9_-]{1,63}$/), { maxLength: 4 });
    fc.assert(
      fc.property(labels, fc.nat(65_535), fc.option(fc.nat(65_535)), (labels, type, payload) => {
        const name = joinName(labels, Uint8Array.of(0))!;
        const bytes = encodeQuery({ name, type, ...(payload === null ? {} : { edns: { payload } }) })!;
        const packet = dns2.Packet.parse(Buffer.from(bytes));
        const parsed = query.parse(bytes, bytes.length);
        const asked = packet.questions[0]!;
        const names = asked.name === labels.join('.') && query.labelCount === labels.length;
        const sizes = payload === null ? !query.edns : query.payload === Math.max(payload, 512);
        return parsed === PARSED && names && asked.type === query.type && sizes;
      }),
      { numRuns: 500 },
    );
    t.equal(encodeQuery({ name: 'a..b', type: 1 }), undefined);
  });
});
