import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { AddressPolicy, collapseRows, isPort, isUint16, normalizeAddress } from '../src/registry/rows.js';
import { row } from './registry-fixture.js';

t.test('addresses are brought to one text, and what is no address is refused', async (t) => {
  const known: [string, string | undefined][] = [
    ['10.0.0.1', '10.0.0.1'],
    ['::1', '::1'],
    ['[::1]', '::1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['FD00:0:0::00A', 'fd00::a'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::ffff:a00:1', '10.0.0.1'],
    ['fe80::1', 'fe80::1'],
    ['fe80::1%eth0', undefined],
    ['[10.0.0.1]', undefined],
    ['010.0.0.1', undefined],
    ['10.1', undefined],
    ['0x7f000001', undefined],
    ['167772161', undefined],
    [' 10.0.0.1', undefined],
    ['10.0.0.1:80', undefined],
    ['localhost', undefined],
    ['', undefined],
  ];
  for (const [text, canonical] of known) t.equal(normalizeAddress(text), canonical, JSON.stringify(text));
});

t.test('R18: addresses that can be no endpoint of another host lose the row, unless they are allowed', async (t) => {
  const remote = new AddressPolicy([], false);
  const local = new AddressPolicy([], true);
  const allowing = new AddressPolicy(['224.0.0.0/4', 'ff00::/8', '127.0.0.53', 'nonsense', '10.0.0.0/99'], false);
  const cases: [string, string | undefined, string | undefined, string | undefined][] = [
    ['10.0.0.1', undefined, undefined, undefined],
    ['2001:db8::1', undefined, undefined, undefined],
    ['127.0.0.1', 'loopback', undefined, 'loopback'],
    ['127.0.0.53', 'loopback', undefined, undefined],
    ['::1', 'loopback', undefined, 'loopback'],
    ['169.254.1.1', 'link-local', undefined, 'link-local'],
    ['fe80::1', 'link-local', undefined, 'link-local'],
    ['febf::1', 'link-local', undefined, 'link-local'],
    ['fec0::1', undefined, undefined, undefined],
    ['0.0.0.0', 'unspecified', 'unspecified', 'unspecified'],
    ['0.1.2.3', 'in 0.0.0.0/8', 'in 0.0.0.0/8', 'in 0.0.0.0/8'],
    ['::', 'unspecified', 'unspecified', 'unspecified'],
    ['224.0.0.251', 'multicast', 'multicast', undefined],
    ['ff02::fb', 'multicast', 'multicast', undefined],
    ['255.255.255.255', 'broadcast', 'broadcast', 'broadcast'],
  ];
  for (const [address, fromRemote, fromLocal, whenAllowed] of cases) {
    t.equal(remote.fault(address), fromRemote, `${address} from a remote registry`);
    t.equal(local.fault(address), fromLocal, `${address} from a local one`);
    t.equal(allowing.fault(address), whenAllowed, `${address} with allowAddresses`);
  }
  t.same([0, 1, 65535, 65536, 1.5, Number.NaN].map(isPort), [false, true, true, false, false, false]);
  t.same([-1, 0, 65535, 65536].map(isUint16), [false, true, true, false]);
});

t.test('R5: duplicates collapse to the best of each', async (t) => {
  const rows = [
    row({ id: 'b', state: 'critical', priority: 5, weight: 3, tags: ['x', 'a'], zone: 'z1' }),
    row({ id: 'c', state: 'warning', priority: 9, weight: 7, tags: ['b', 'a'], portName: 'http' }),
    row({ id: 'd', state: 'draining', priority: 2, weight: 1 }),
    row({ port: 81 }),
    row({ protocol: 'udp' }),
  ];
  t.same(collapseRows(rows), [
    row({ id: 'c', state: 'warning', priority: 2, weight: 7, tags: ['a', 'b', 'x'], portName: 'http', zone: 'z1' }),
    row({ port: 81 }),
    row({ protocol: 'udp' }),
  ]);
  const anyRow = fc.record({
    id: fc.constantFrom('a', 'b', 'c'),
    address: fc.constantFrom('10.0.0.1', '10.0.0.2'),
    port: fc.constantFrom(80, 81),
    protocol: fc.constantFrom('tcp' as const, 'udp' as const),
    priority: fc.nat(3),
    weight: fc.nat(3),
    tags: fc.array(fc.constantFrom('x', 'y'), { maxLength: 3 }),
    state: fc.constantFrom('passing' as const, 'warning' as const, 'critical' as const, 'draining' as const),
  });
  fc.assert(
    fc.property(fc.array(anyRow, { maxLength: 8 }), (list) => {
      const once = collapseRows(list);
      // A second time changes nothing, nor does the order of the list.
      assert.deepEqual(collapseRows(once), once);
      assert.deepEqual(collapseRows([...list].reverse()), once);
    }),
    { numRuns: 100 },
  );
});
