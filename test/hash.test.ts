import fc from 'fast-check';
import t from 'tap';
import { hashLabel, hashName, hashStart } from '../src/answers/hash.js';
import { RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { nameToWire } from '../src/dns/names.js';
import { decode, World } from './answers-fixture.js';

const label = fc.stringMatching(/^[a-zA-Z0-9_-]{1,63}$/);
const name = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => nameToWire(labels.join('.'))!);

t.test('the hash of a name does not depend on case, nor on where the name lies', async () => {
  fc.assert(
    fc.property(name, fc.nat(40), fc.integer(), (wire, before, seed) => {
      const upper = wire.map((byte) => (byte >= 0x61 && byte <= 0x7a ? byte - 32 : byte));
      const placed = new Uint8Array(before + wire.length).fill(0x2e);
      placed.set(upper, before);
      return hashName(seed, wire, 0, wire.length) === hashName(seed, placed, before, placed.length);
    }),
  );
});

t.test('the hash of a suffix falls off on the way', async () => {
  fc.assert(
    fc.property(label, name, fc.integer(), (first, rest, seed) => {
      const front = nameToWire(first)!.subarray(0, first.length + 1);
      const whole = new Uint8Array([...front, ...rest]);
      const hash = hashLabel(hashName(seed, rest, 0, rest.length), whole, 0, front.length - 1);
      return hash === hashName(seed, whole, 0, whole.length);
    }),
  );
});

t.test('every octet of a label counts', async (t) => {
  const wire = nameToWire('abcdefghijk.example')!;
  const hash = hashName(1, wire, 0, wire.length);
  for (let at = 1; at <= 11; at++) {
    const other = wire.slice();
    other[at]! ^= 1;
    t.not(hashName(1, other, 0, other.length), hash, `octet ${at}`);
  }
  t.equal(hashName(1, Uint8Array.of(0), 0, 1), hashStart(1), 'the root has no label');
});

t.test('names of one hash are told apart', async (t) => {
  const world = new World();
  world.zone('svc.internal');
  const zone = nameToWire('svc.internal')!;
  // Neither octet is a letter; to the hash they are one.
  const under = Uint8Array.of(3, 0x61, 0x5f, 0x62, ...zone);
  const other = Uint8Array.of(3, 0x61, 0x7f, 0x62, ...zone);
  t.equal(hashName(5, under, 0, under.length), hashName(5, other, 0, other.length));
  const rcode = (name: Uint8Array): number => decode(world.send(encodeQuery({ name, type: TYPE.A })!)).rcode;
  world.table.set(0, under, 0, []);
  t.equal(rcode(under), RCODE.NOERROR);
  t.equal(rcode(other), RCODE.NXDOMAIN);
  world.table.set(0, other, 0, []);
  t.equal(rcode(other), RCODE.NOERROR);
  world.table.delete(0, under);
  t.equal(rcode(under), RCODE.NXDOMAIN);
  t.equal(rcode(other), RCODE.NOERROR);
});
