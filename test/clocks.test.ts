/** Machines and clocks (R29, R30). */
import { join } from 'node:path';
import t from 'tap';
import { BootClock, type ClockReadings, ClockWatch } from '../src/system/boot-clock.js';
import { machineId } from '../src/system/machine.js';
import { WALL } from './snapshot-fixture.js';

t.test('the id of a machine', async (t) => {
  const dir = t.testdir({ id: '0123456789abcdef0123456789abcdef\n', new: 'uninitialized\n', empty: '' });
  const id = machineId([join(dir, 'none'), join(dir, 'new'), join(dir, 'id')]);
  t.equal(id, 'd471e4b1ca01dc033e27e9c6206f80c1', 'derived, not the id itself');
  t.equal(machineId([join(dir, 'none'), join(dir, 'new'), join(dir, 'empty')]), undefined);
});

t.test('boot time goes on through a suspend and never steps back', async (t) => {
  const at = { mono: 10_000, uptime: 10_008, wall: WALL };
  const clock = new BootClock({ mono: () => at.mono, uptime: () => at.uptime, wall: () => at.wall });
  t.same(clock.now(), { boot: 10_000, wall: WALL }, 'never suspended: the monotonic clock itself');
  at.mono += 2000;
  at.uptime += 2000 - 9;
  at.wall -= 86_400_000;
  t.same(
    clock.now(),
    { boot: 12_000, wall: WALL - 86_400_000 },
    'the coarse uptime does not matter, nor does the wall clock',
  );
  at.mono += 1000;
  at.uptime += 1000 + 3_600_000;
  t.equal(clock.now().boot, 3_613_000 - 1, 'an hour of suspend');
  at.mono += 500;
  t.equal(clock.now().boot, 3_613_500 - 1);
  at.mono += 1000;
  at.uptime = 0;
  t.equal(clock.now().boot, 3_614_500 - 1, 'an uptime that goes back is not believed');
  const real = new BootClock();
  const before = real.now().boot;
  t.ok(before > 0);
  t.ok(real.now().boot >= before);
});

t.test('R30: the clocks part', async (t) => {
  const start: ClockReadings = { mono: 1_000_000, boot: 2_000_000, wall: WALL };
  const after = (mono: number, boot = mono, wall = boot): unknown => {
    const watch = new ClockWatch(1000);
    t.equal(watch.observe(start), undefined, 'the first readings have nothing to part from');
    const gap = watch.observe({ mono: start.mono + mono, boot: start.boot + boot, wall: start.wall + wall });
    t.equal(
      watch.observe({ mono: start.mono + mono + 1000, boot: start.boot + boot + 1000, wall: start.wall + wall + 1000 }),
      undefined,
      'a gap is told once',
    );
    return gap;
  };
  t.equal(after(1000), undefined);
  t.equal(after(6000), undefined, 'five seconds late is not more than five');
  t.same(after(6001), { kind: 'late', by: 5001 });
  t.same(after(1000, 7000), { kind: 'suspend', by: 6000 });
  t.equal(after(1000, 1000, 6000), undefined);
  t.same(after(1000, 1000, 6001), { kind: 'step', by: 5001 });
  t.same(after(1000, 1000, -86_400_000), { kind: 'step', by: -86_401_000 });
  const drifting = new ClockWatch(1000);
  let gap: unknown;
  for (let s = 0; s < 100_000; s++) gap ??= drifting.observe({ mono: s * 1000, boot: s * 1000, wall: s * 1000.5 });
  t.equal(gap, undefined, 'a clock that is slewed for a day is no gap');
});
