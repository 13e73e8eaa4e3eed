import t from 'tap';
import { HostAddresses } from '../src/system/host-addresses.js';

t.test('addresses of this host stay so while their interface has no carrier (R16)', async (t) => {
  const up = { lo: [{ address: '127.0.0.1' }], eth0: [{ address: '10.0.0.5' }, { address: 'fd00::5' }] };
  let told: NodeJS.Dict<{ address: string }[]> = up;
  let cut: string[] = [];
  const host = new HostAddresses(
    () => told,
    (name) => cut.includes(name),
  );
  t.same([...host.look()], ['127.0.0.1', '10.0.0.5', 'fd00::5']);
  told = { lo: up.lo };
  cut = ['eth0'];
  t.same([...host.look()].sort(), ['10.0.0.5', '127.0.0.1', 'fd00::5'], 'Node tells nothing of it');
  t.same([...host.look()].sort(), ['10.0.0.5', '127.0.0.1', 'fd00::5']);
  cut = [];
  told = { lo: up.lo, eth0: [{ address: '10.0.0.5' }] };
  t.same([...host.look()], ['127.0.0.1', '10.0.0.5'], 'one moved to another host');
  told = { lo: up.lo };
  t.same([...host.look()], ['127.0.0.1'], 'it was taken down');
  t.ok(new HostAddresses().look().has('127.0.0.1'));
});
