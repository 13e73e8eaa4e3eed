import t, { type Test } from 'tap';
import type { Row } from '../src/registry/registry.js';
import { type Ask, row, service, World } from './answers-fixture.js';

function endpoints(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => row(`10.1.${i >> 8}.${i & 255}`, 1000 + i, { portName: 'http' }));
}

t.test('sizes and truncation (RFC 2181 s.9, R26)', async (t) => {
  const limits: [string, Ask, number][] = [
    ['no EDNS', {}, 512],
    ['payload 100', { edns: { payload: 100 } }, 512],
    ['payload 512', { edns: { payload: 512 } }, 512],
    ['payload 1232', { edns: { payload: 1232 } }, 1232],
    ['payload 4096', { edns: { payload: 4096 } }, 1232],
    ['TCP', { transport: 'tcp' }, 65_535],
    ['TCP with EDNS', { transport: 'tcp', edns: { payload: 512 } }, 65_535],
  ];
  const world = new World();
  const status = world.table.allocStatus();
  const zone = world.zone('svc.internal');

  for (const count of [1, 2, 5, 7, 9, 17, 23, 60, 100, 333, 600, 3000, 5000]) {
    const rows = endpoints(count);
    const name = `s${'x'.repeat(count % 50)}`;
    zone.putService(service(name, rows, { status, order: 'stable' }));
    for (const [what, ask, limit] of limits) {
      for (const type of ['SRV', 'A'] as const) {
        const seen: { total: number; answers: number; tc: number; additionals: number }[] = [];
        for (const ede of [
          undefined,
          { code: 3 },
          { code: 3, text: 'stale 42 s, registry not heard: connection refused' },
        ]) {
          world.table.setStatus(status, ede);
          const reply = world.ask(`${name}.svc.internal`, type, ask);
          if (reply.bytes.length > limit) t.fail(`${count} ${type} ${what}: ${reply.bytes.length} bytes`);
          if (reply.errors.length > 0) t.fail(`${count} ${type} ${what}: ${reply.errors}`);
          if (reply.opts !== (ask.edns ? 1 : 0)) t.fail(`${count} ${type} ${what}: ${reply.opts} OPT`);
          if (ede && ask.edns && reply.ede?.code !== 3) t.fail(`${count} ${type} ${what}: no EDE`);
          const targets = new Set(reply.answers.map(({ target }) => target));
          if (targets.size !== reply.answers.length && type === 'SRV') t.fail(`${count} ${what}: a target twice`);
          if (!reply.additionals.every(({ name }) => targets.has(name))) t.fail(`${count} ${what}: foreign additional`);
          const { additionals, flags } = reply;
          seen.push({ total: count, answers: reply.answers.length, tc: flags.tc, additionals: additionals.length });
        }
        t.same(seen[1], seen[0], `${count} ${type} ${what}: stale is cut as fresh`);
        t.same(seen[2], seen[0], `${count} ${type} ${what}: a text cuts nothing`);
        t.equal(seen[0]!.tc, seen[0]!.answers < count ? 1 : 0, `${count} ${type} ${what}: TC tells of missing records`);
        t.ok(seen[0]!.answers > 0, `${count} ${type} ${what}: never an empty answer`);
        if (seen[0]!.tc) t.equal(seen[0]!.additionals, 0, `${count} ${what}: no additional with TC`);
      }
    }
    zone.removeService(name);
  }

  t.test('the text of an EDE goes before an additional record, the option stays', async (t) => {
    const rows = endpoints(8);
    zone.putService(service('edge', rows, { status }));
    world.table.setStatus(status, { code: 3, text: 'x'.repeat(60) });
    const seen = new Set<string>();
    for (let payload = 512; payload <= 700; payload++) {
      const reply = world.ask('edge.svc.internal', 'SRV', { edns: { payload } });
      if (reply.bytes.length > payload) t.fail(`${reply.bytes.length} bytes for ${payload}`);
      seen.add(`${reply.flags.tc} ${reply.additionals.length} ${reply.ede?.text.length}`);
    }
    t.same([...seen], ['0 6 0', '0 7 0', '0 8 0', '0 8 60']);
  });

  t.test('over 16 kB owners of additional records are written in full', async (t) => {
    zone.putService(service('many', endpoints(800)));
    const reply = world.ask('many.svc.internal', 'SRV', { transport: 'tcp' });
    t.same([reply.answers.length, reply.additionals.length, reply.errors.length], [800, 800, 0]);
    t.ok(reply.bytes.length > 0x4000);
  });

  t.test('maxAnswers gives a rotating subset without TC', async (t) => {
    zone.putService(service('few', endpoints(40), { maxAnswers: 4 }));
    for (const type of ['SRV', 'A'] as const) {
      const seen = new Set<unknown>();
      for (let i = 0; i < 1000; i++) {
        const { answers, flags } = world.ask('few.svc.internal', type);
        if (answers.length !== 4 || flags.tc !== 0) t.fail('not four answers');
        for (const { target, address } of answers) seen.add(target ?? address);
      }
      t.equal(seen.size, 40, 'all get a share');
    }
  });
});

t.test('order (R24)', async (t) => {
  const world = new World();
  const status = world.table.allocStatus();
  const zone = world.zone('svc.internal');
  const firsts = (name: string, type: 'A' | 'SRV', draws = 10_000) => {
    const counts = new Map<string, number>();
    for (let i = 0; i < draws; i++) {
      const { address, target } = world.ask(`${name}.svc.internal`, type).answers[0]!;
      const key = (address ?? target!.split('.')[0]!.replaceAll('-', '.')).split('.').at(-1)!;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return counts;
  };
  const within = (t: Test, counts: Map<string, number>, shares: Record<string, number>, draws = 10_000) => {
    for (const [key, share] of Object.entries(shares)) {
      const got = (counts.get(key) ?? 0) / draws;
      t.ok(Math.abs(got - share) < 0.015, `${key}: ${got} for ${share}`);
    }
    t.same([...counts.keys()].sort(), Object.keys(shares).sort());
  };

  t.test('ten equal endpoints are each first in a tenth of the answers, fresh and stale', async (t) => {
    zone.putService(
      service(
        'ten',
        Array.from({ length: 10 }, (_, i) => row(`10.0.0.${i}`, 80)),
        { status },
      ),
    );
    const tenth = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`${i}`, 0.1]));
    for (const ede of [undefined, { code: 3 }]) {
      world.table.setStatus(status, ede);
      for (const type of ['A', 'SRV'] as const) within(t, firsts('ten', type), tenth);
    }
  });

  t.test('weights', async (t) => {
    const rows = [1, 3, 6].map((weight) => row(`10.0.0.${weight}`, 80, { weight }));
    zone.putService(service('three', [...rows, row('10.0.0.9', 80, { weight: 0 })]));
    for (const type of ['A', 'SRV'] as const) within(t, firsts('three', type), { 1: 0.1, 3: 0.3, 6: 0.6 });
    const last = new Set(Array.from({ length: 200 }, () => world.ask('three.svc.internal', 'SRV').answers[3]!.target));
    t.same([...last], ['10-0-0-9.ip.svc.internal'], 'weight 0 comes last in SRV');
    t.equal(world.ask('three.svc.internal', 'A').answers.length, 3, 'and is not among the addresses');
  });

  t.test('the second place too is drawn by weight', async (t) => {
    const rows = [1, 1, 8].map((weight, i) => row(`10.0.0.${i}`, 80, { weight }));
    zone.putService(service('second', rows));
    let light = 0;
    for (let i = 0; i < 10_000; i++) {
      const { answers } = world.ask('second.svc.internal', 'SRV');
      if (answers[0]!.weight === 8 && answers[1]!.target!.startsWith('10-0-0-0')) light++;
    }
    t.ok(Math.abs(light / 10_000 - 0.4) < 0.02, `${light}`);
  });

  t.test('weight 0 is answered when nothing else is left', async (t) => {
    zone.putService(service('idle', [row('10.0.0.1', 80, { weight: 0 }), row('10.0.0.2', 80, { weight: 0 })]));
    for (const type of ['A', 'SRV'] as const) within(t, firsts('idle', type), { 1: 0.5, 2: 0.5 });
  });

  t.test('more than sixteen: a weighted start, the rest in turn, each once', async (t) => {
    const weight = (i: number) => (i < 10 ? 10 : 0 + (i === 10 ? 100 : 1));
    const rows = Array.from({ length: 20 }, (_, i) => row(`10.0.0.${i}`, 80, { weight: weight(i) }));
    zone.putService(service('twenty', rows));
    const counts = firsts('twenty', 'SRV');
    t.ok(Math.abs((counts.get('10') ?? 0) / 10_000 - 100 / 209) < 0.02);
    const { answers } = world.ask('twenty.svc.internal', 'SRV', { transport: 'tcp' });
    t.equal(new Set(answers.map(({ target }) => target)).size, 20);
  });

  t.test('stable keeps the given order', async (t) => {
    const rows = [row('10.0.0.2', 80), row('10.0.0.1', 80, { priority: 1 }), row('10.0.0.3', 80)];
    zone.putService(service('fixed', rows, { order: 'stable' }));
    const orders = new Set(
      Array.from({ length: 100 }, () => {
        const srv = world.ask('fixed.svc.internal', 'SRV').answers.map(({ target }) => target!.split('.')[0]);
        return [...srv, ...world.ask('fixed.svc.internal', 'A').answers.map(({ address }) => address)].join(' ');
      }),
    );
    t.same([...orders], ['10-0-0-2 10-0-0-3 10-0-0-1 10.0.0.2 10.0.0.3']);
  });

  const answered = (name: string, type: 'A' | 'SRV') => {
    const { answers, flags } = world.ask(`${name}.svc.internal`, type);
    if (flags.tc !== 0) t.fail('maxAnswers is no truncation');
    return answers.map(({ target, address }) => (address ?? target!.split('.')[0]!.replaceAll('-', '.')).slice(7));
  };

  t.test('stable with maxAnswers begins at another record each time and goes on in the given order', async (t) => {
    const rows = [1, 2, 3, 4].map((last) => row(`10.0.0.${last}`, 80, { weight: last }));
    zone.putService(service('window', rows, { order: 'stable', maxAnswers: 3 }));
    for (const type of ['A', 'SRV'] as const) {
      const counts = new Map<string, number>();
      for (let i = 0; i < 10_000; i++) {
        const window = answered('window', type).join(' ');
        counts.set(window, (counts.get(window) ?? 0) + 1);
      }
      within(t, counts, { '1 2 3': 0.25, '2 3 4': 0.25, '3 4 1': 0.25, '4 1 2': 0.25 });
    }
    zone.putService(service('roomy', rows, { order: 'stable', maxAnswers: 4 }));
    for (const type of ['A', 'SRV'] as const) {
      const orders = new Set(Array.from({ length: 100 }, () => answered('roomy', type).join(' ')));
      t.same([...orders], ['1 2 3 4'], 'where all have room, the order stands');
    }
  });

  t.test('stable with maxAnswers over priorities: only the one that is cut takes turns', async (t) => {
    const rows = [1, 2, 3, 4, 5].map((last) => row(`10.0.0.${last}`, 80, { priority: last < 3 ? 0 : 1 }));
    zone.putService(service('cut', rows, { order: 'stable', maxAnswers: 4 }));
    const orders = new Set(Array.from({ length: 200 }, () => answered('cut', 'SRV').join(' ')));
    t.same([...orders].sort(), ['1 2 3 4', '1 2 4 5', '1 2 5 3']);
  });

  for (const [name, count] of [
    ['drawn', 4],
    ['turned', 20],
  ] as const) {
    t.test(`weighted with maxAnswers gives every record its turn, those of weight 0 rarely: ${count}`, async (t) => {
      const weight = (last: number) => (last === 1 ? 1000 : last === 2 ? 500 : 0);
      const rows = Array.from({ length: count }, (_, i) => row(`10.0.0.${i + 1}`, 80, { weight: weight(i + 1) }));
      zone.putService(service(name, rows, { maxAnswers: 1 }));
      const counts = firsts(name, 'SRV');
      t.equal(counts.size, count, 'all of them');
      const weightless = 10_000 - counts.get('1')! - counts.get('2')!;
      t.ok(weightless > 80 && weightless < 240, `one in 64 begins with weight 0: ${weightless} of 10000`);
      t.ok(Math.abs(counts.get('1')! / 10_000 - 0.656) < 0.02, `${counts.get('1')}`);
    });
  }
});
