import t from 'tap';
import { type Place, Places } from '../src/catalog/places.js';

const holder = (name: string, port = 80, protocol: Place['protocol'] = 'tcp') => ({
  name,
  row: { address: '10.0.0.1', port, protocol },
});

t.test('who has an address, port and protocol (R19, R20)', async (t) => {
  const places = new Places<ReturnType<typeof holder>>();
  const [a, b, c] = [holder('a'), holder('b'), holder('c')];
  // Whatever is told apart only at a closer look lies at the same number.
  const [udp, other] = [holder('udp', 80, 'udp'), holder('other', 81)];
  const at = (): string[] => places.at(a.row).map(({ name }) => name);
  const some = (name: string): boolean => places.some(a.row, (one) => one.name === name);

  t.same([at(), places.count(a.row), some('a')], [[], 0, false]);
  places.add(udp);
  places.add(other);
  t.same([at(), some('udp'), places.count(other.row)], [[], false, 1], 'another protocol or port is another place');
  places.add(a);
  t.same([at(), some('a'), some('udp'), some('other')], [['a'], true, false, false]);
  places.add(b);
  places.add(c);
  t.same([at(), places.count(a.row)], [['a', 'b', 'c'], 4]);

  places.remove(b);
  places.remove(holder('stranger'));
  t.same([at(), some('b'), some('c')], [['a', 'c'], false, true]);
  places.remove(a);
  places.remove(udp);
  places.remove(holder('stranger'));
  t.same([at(), places.count(a.row), some('c')], [['c'], 1, true]);
  places.remove(c);
  t.same([at(), places.count(a.row), some('c')], [[], 0, false]);
});

t.test('those whose place came to be another’s, too, or no longer, are told once (R19)', async (t) => {
  const places = new Places<ReturnType<typeof holder>>();
  const [a, b] = [holder('a'), holder('b')];
  const told = (): string[] => places.takeContested().map(({ name }) => name);
  places.add(a);
  t.same(told(), [], 'it is alone');
  places.add(b);
  t.same([told(), told()], [['a', 'b'], []]);
  places.remove(b);
  t.same([told(), told()], [['a'], []]);
  places.contest(a.row);
  places.contest(a.row);
  t.same(told(), ['a']);
});
