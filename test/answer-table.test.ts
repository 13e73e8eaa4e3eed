/** The table in shared memory: one writer, many readers. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import { AnswerTable } from '../src/answers/table.js';
import { TableReader } from '../src/answers/table-reader.js';
import { ZoneAnswers } from '../src/answers/zone-answers.js';
import { TYPE } from '../src/dns/constants.js';
import { joinName, nameToWire, wireToName } from '../src/dns/names.js';
import type { ChurnResult, ChurnTask } from './answers-churn-worker.js';
import { row, SYNCED, service, spec, World } from './answers-fixture.js';

const ZONE = 'svc.internal';

t.test('only what changed is rewritten', async (t) => {
  const world = new World();
  const rows = [row('10.0.0.1', 80, { portName: 'http', tags: ['blue'] }), row('10.0.0.2', 80, { portName: 'http' })];
  const zone = world.zone(ZONE, [service('web', rows), service('api', rows)]);
  const { used, retired } = world.table.size;
  zone.putService(
    service(
      'web',
      rows.map((row) => ({ ...row })),
    ),
  );
  for (const { address } of rows) zone.putTarget(address);
  t.match(world.table.size, { used, retired });
  world.table.set(0, nameToWire(`web.${ZONE}`)!, 0, []);
  t.ok(world.table.size.used < used + 200);
});

t.test('a status slot changes all its names by one store', async (t) => {
  const world = new World();
  const status = world.table.allocStatus();
  const rows = [row('10.0.0.1', 80, { portName: 'http' })];
  const zone = world.zone(ZONE, [service('web', rows, { status }), service('api', rows, { status })], {}, status);
  const ede = (name: string, type: 'A' | 'TXT' = 'A') => world.ask(`${name}.${ZONE}`, type, { edns: {} }).ede;
  t.equal(ede('web'), undefined);
  world.table.setStatus(status, { code: 3, text: 'stale 42 s' });
  for (const name of ['web', 'api', '_web._tcp', '_http._tcp.api', '10-0-0-1.ip']) {
    t.same(ede(name), { code: 3, text: 'stale 42 s' }, name);
  }
  t.same(ede('web', 'TXT'), { code: 3, text: 'stale 42 s' }, 'NODATA too');
  world.table.setStatus(status, { code: 3, text: `${'é'.repeat(29)}xéé` });
  t.equal(ede('web')!.text, `${'é'.repeat(29)}x`, 'at most 60 bytes, cut between characters');
  world.table.setStatus(status, undefined);
  t.equal(ede('web'), undefined);

  t.test('slots grow in number', async (t) => {
    const slots = Array.from({ length: 1000 }, () => world.table.allocStatus());
    t.equal(new Set(slots).size, 1000);
    world.table.setStatus(slots[999]!, { code: 22 });
    zone.putService(service('far', rows, { status: slots[999]! }));
    t.equal(ede('far')!.code, 22);
    world.table.freeStatus(slots[999]!);
    t.equal(ede('far'), undefined);
  });
});

t.test('many zones: each name is found in its own', async (t) => {
  const world = new World();
  for (let i = 0; i < 500; i++) world.zone(`z${i}.example`, [service('web', [row(`10.2.${i >> 8}.${i & 255}`, 80)])]);
  world.zone('example', [service('web', [row('10.0.0.9', 80)])]);
  for (const i of [0, 1, 77, 499]) {
    t.match(world.ask(`web.z${i}.example`, 'A').answers, [{ address: `10.2.${i >> 8}.${i & 255}` }]);
  }
  t.match(world.ask('web.example', 'A').answers, [{ address: '10.0.0.9' }]);
  t.equal(world.ask('web.z500.example', 'A').rcode, 3);
});

t.test('what a reader sees while the writer goes on', async (t) => {
  const address = (world: World, name = `web.${ZONE}`) => world.ask(name, 'A').answers.map((record) => record.address);

  t.test('a change is seen by the next query, without a new handle', async (t) => {
    const world = new World();
    const zone = world.zone(ZONE, [service('web', [row('10.0.0.1', 80)])]);
    const { generation } = world.table;
    zone.putService(service('web', [row('10.0.0.2', 80)]));
    t.same(address(world), ['10.0.0.2']);
    t.equal(world.table.generation, generation);
  });

  t.test('with an old handle a reader answers from what it had, however much is written', async (t) => {
    const world = new World();
    const zone = world.zone(ZONE, [service('web', [row('10.0.0.1', 80)])]);
    let changes = 0;
    world.table.onChange = () => changes++;
    const label = (i: number) => `s${i}`;
    for (let i = 0; i < 3000; i++) zone.putService(service(label(i), [row('10.0.0.3', 80)]));
    t.equal(changes, 1, 'said once');
    for (let i = 0; i < 3000; i++) zone.removeService(label(i));
    for (let i = 0; i < 3000; i++) zone.putService(service('web', [row('10.0.0.2', 80 + i)]));
    t.same(address(world), ['10.0.0.1']);
    t.ok(world.table.size.retired > 3000, 'and nothing of it is used again');
    zone.dispose();
    t.same(address(world), ['10.0.0.1'], 'nor does a zone go under its hands');
    world.responder.update(world.table.share());
    t.equal(world.ask(`web.${ZONE}`, 'A').rcode, 5);
    world.zone(ZONE, [service('web', [row('10.0.0.4', 80)])]);
    t.equal(changes, 2);
  });

  t.test('with an old handle a reader does not deny the names of the first list', async (t) => {
    const world = new World();
    const zone = new ZoneAnswers(world.table, world.table.allocZone(), spec(ZONE));
    zone.setState({ ...SYNCED, synced: false });
    world.table.onChange = () => undefined;
    t.equal(world.ask(`s700.${ZONE}`, 'A').rcode, 2, 'no list yet');
    for (let i = 0; i < 1000; i++) zone.putService(service(`s${i}`, [row('10.0.0.3', 80)]));
    zone.setState(SYNCED);
    const denied = Array.from({ length: 1000 }, (_, i) => world.ask(`s${i}.${ZONE}`, 'A').rcode).filter(
      (rcode) => rcode !== 0 && rcode !== 2,
    );
    t.same(denied, []);
    world.responder.update(world.table.share());
    t.equal(world.ask(`s700.${ZONE}`, 'A').rcode, 0);
    t.equal(world.ask(`t700.${ZONE}`, 'A').rcode, 3);
  });

  t.test('within a batch nothing is used again; after it everything is', async (t) => {
    const world = new World();
    const zone = world.zone(ZONE, [service('web', [row('10.0.0.1', 80)])]);
    const change = (i: number) => zone.putService(service('web', [row(`10.0.${i >> 8}.${i & 255}`, 80)]));
    for (let i = 0; i < 500; i++) change(i);
    const { used, retired } = world.table.size;
    t.ok(retired < 200);
    world.responder.beginBatch();
    for (let i = 0; i < 500; i++) change(i);
    t.ok(world.table.size.used > used + 500 * 100);
    world.responder.endBatch();
    for (let i = 0; i < 500; i++) change(i);
    t.ok(world.table.size.retired < 200);
    t.ok(world.table.size.used < used + 20_000, 'memory goes back to what is alive');
  });

  t.test('a reader that is gone holds nothing up', async (t) => {
    const world = new World();
    const zone = world.zone(ZONE, [service('web', [row('10.0.0.1', 80)])]);
    const gone = world.table.addReader();
    new TableReader(world.table.share(), gone).beginBatch();
    for (let i = 0; i < 500; i++) zone.putService(service('web', [row('10.0.0.1', i + 1)]));
    t.ok(world.table.size.retired > 500);
    world.table.removeReader(gone);
    for (let i = 0; i < 100; i++) zone.putService(service('web', [row('10.0.0.1', i + 1)]));
    t.ok(world.table.size.retired < 200);
    const readers = Array.from({ length: 63 }, () => world.table.addReader());
    t.equal(new Set(readers).size, 63);
    t.throws(() => world.table.addReader(), /more than 64 readers/);
  });

  t.test('the arena grows over segments, and every name is still there', async (t) => {
    const world = new World();
    const zone = world.zone(ZONE);
    const rows = (seed: number) => Array.from({ length: 2000 }, (_, i) => row(`10.${seed}.${i >> 8}.${i & 255}`, 80));
    for (let i = 0; i < 100; i++) zone.putService(service(`s${i}`, rows(i)));
    t.equal(world.table.size.capacity, 2 * 2 ** 24);
    for (const i of [0, 50, 99])
      t.match(world.ask(`s${i}.${ZONE}`, 'A').answers[0]!.address, new RegExp(`^10\\.${i}\\.`));
    for (let i = 0; i < 100; i++) zone.putService(service(`s${i}`, rows(i + 100)));
    for (const i of [0, 50, 99])
      t.match(world.ask(`s${i}.${ZONE}`, 'A').answers[0]!.address, new RegExp(`^10\\.${i + 100}\\.`));
    t.ok(world.table.size.capacity <= 3 * 2 ** 24, 'replaced blocks are used again');
  });
});

t.test('another thread never sees half a change', async (t) => {
  const world = new World();
  const zone = world.zone(ZONE);
  const rows = (host: number, count: number) =>
    Array.from({ length: count }, (_, i) => row(`10.${i >> 8}.${i & 255}.${host}`, 80));
  zone.putService(service('web', rows(0, 1)));
  const reader = world.table.addReader();
  const workerData: ChurnTask = { handle: world.table.share(), reader, name: `web.${ZONE}` };
  const worker = new Worker(new URL('./answers-churn-worker.js', import.meta.url), { workerData });
  world.table.onChange = () => {
    const handle = world.table.share();
    worker.postMessage(handle);
    world.responder.update(handle);
  };
  await once(worker, 'message');
  for (let i = 1; i <= 4000; i++) {
    zone.putService(service('web', rows(i & 255, 1 + ((i * 7) % 40))));
    zone.putService(service(`s${i % 700}`, rows(1, (i * 13) % 60)));
    if (i % 250 === 0) await new Promise(setImmediate);
  }
  worker.postMessage('stop');
  const [result] = (await once(worker, 'message')) as [ChurnResult];
  t.equal(result.torn, 0, `${result.queries} queries`);
  t.ok(result.queries > 100);
  t.equal(world.table.size.capacity, 2 ** 24, 'and memory is used again');
});

t.test('under random change the table holds exactly what a plain map holds, in bounded memory', async (t) => {
  const zoneName = nameToWire(ZONE)!;
  const wire = (n: number) => joinName([`n${n}`], zoneName)!;
  const actions = fc.array(
    fc.record({ name: fc.nat(400), size: fc.nat(3000), drop: fc.boolean(), batch: fc.boolean() }),
    { minLength: 200, maxLength: 1500 },
  );
  fc.assert(
    fc.property(actions, (actions) => {
      const table = new AnswerTable({ seed: 1 });
      const reader = table.addReader();
      let view = new TableReader(table.share(), reader);
      table.onChange = () => view?.update(table.share());
      const model = new Map<number, number>();
      let inBatch = false;
      for (const { name, size, drop, batch } of actions) {
        if (batch !== inBatch) view[batch ? 'beginBatch' : 'endBatch']();
        inBatch = batch;
        if (drop) {
          if (table.delete(7, wire(name)) !== model.delete(name)) return false;
        } else {
          const set = new Uint8Array(16 + size);
          new Uint32Array(set.buffer, 0, 1)[0] = set.length;
          table.set(7, wire(name), 0, [{ type: TYPE.TXT, set }]);
          model.set(name, set.length);
        }
      }
      view = new TableReader(table.share(), reader);
      const sizes = new Map<string, number>();
      table.names(7, (name, sets) => sizes.set(wireToName(name)!, sets[0]!.set.length));
      const expected = new Map([...model].map(([name, size]) => [`n${name}.${ZONE}`, size]));
      const same = sizes.size === expected.size && [...expected].every(([name, size]) => sizes.get(name) === size);
      return same && table.size.names === model.size && table.size.capacity === 2 ** 24;
    }),
    { numRuns: 40 },
  );
  t.pass();
});
