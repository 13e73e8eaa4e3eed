/** A spare UDP thread waits, and takes the place of one that dies. */
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import t from 'tap';
import { AnswerWorkers } from '../src/server/answer-workers.js';
import { askUdp, occupy, openDescriptors, pause, question, Served, until } from './server-fixture.js';

t.setTimeout(120_000);

const WEB = question('web.svc.test', 'A');
const DIE = question('die.svc.test', 'A');
const SOON = 20;
/** ms. While it loads it rests for a few at most. */
const LOADED_IDLE = 100;

const at = (served: Served) => ({ address: '127.0.0.1', port: served.port });
const named = (served: Served, name: string) => served.workers.filter((w) => w.name === name).map((w) => w.worker);
const deaths = (served: Served) => served.events('answer-thread-died').map(({ fields }) => fields);

/** Waits for the latest of so many spares to have loaded: one that is terminated before takes the process with it. */
async function spares(served: Served, count: number): Promise<void> {
  await until(() => {
    const all = named(served, 'udp-spare');
    return all.length === count && all.at(-1)!.performance.eventLoopUtilization().idle > LOADED_IDLE;
  });
}

for (const transport of ['batched', 'portable'] as const) {
  t.test(`${transport}: the spare takes the place of a thread that throws`, async (t) => {
    // The first listener of a process takes a descriptor for good.
    await (await occupy()).release();
    const before = openDescriptors();
    const served = await new Served(transport, 'mortal', SOON).start(t, { transport });
    await spares(served, 1);
    const answers = async (): Promise<boolean> => (await askUdp(at(served), WEB, 200)) !== undefined;

    void askUdp(at(served), DIE, 3_000);
    await until(() => deaths(served).length === 1);
    // Batched: the socket lives on, and what comes meanwhile waits in it.
    if (transport === 'batched') t.match((await askUdp(at(served), WEB))?.answers, [{ address: '10.0.0.1' }]);
    else await until(answers);
    t.match(deaths(served), [{ thread: 'udp-0', next: 'the spare thread', error: /^Error: mortal\n.*endBatch/ }]);
    t.equal(named(served, 'udp-0').length, 1, 'no other was made');

    await spares(served, 2);
    void askUdp(at(served), DIE, 3_000);
    await until(() => deaths(served).length === 2);
    await until(answers);
    t.match(deaths(served)[1], { thread: 'udp-0', next: 'a new thread in 100 ms' });
    t.equal(named(served, 'udp-0').length, 2, 'a thread that dies again and again takes no spare');
    t.equal(served.server.restarts, 2);

    await served.server.stop();
    t.equal(named(served, 'udp-spare').at(-1)!.threadId, -1, 'a stop ends the spare');
    await until(() => openDescriptors() <= before);
  });
}

t.test('batched: each spare is made good, and two threads that die at once are', async (t) => {
  const served = await new Served('batched', undefined, SOON).start(t, { transport: 'batched', workers: 3 });
  const kill = async (...names: readonly string[]): Promise<void> => {
    const dead = names.map((name) => named(served, name)[0]!.terminate());
    // A native loop notices when something comes.
    served.server.update(served.world.table.share());
    await Promise.all(dead);
  };
  await spares(served, 1);
  await kill('udp-0');
  await spares(served, 2);
  await kill('udp-1', 'udp-2');
  t.same(
    deaths(served).map(({ next }) => next),
    ['the spare thread', 'the spare thread', 'a new thread'],
  );
  for (let i = 0; i < 40; i++) t.ok(await askUdp(at(served), WEB), `client ${i}`);
  await spares(served, 3);
});

t.test('a spare that dies is no harm', async (t) => {
  const served = await new Served('batched', undefined, SOON).start(t, { transport: 'batched' });
  await spares(served, 1);
  await named(served, 'udp-spare')[0]!.terminate();
  await spares(served, 2);
  t.same([deaths(served), served.server.restarts], [[], 0], 'nobody missed it');

  const both = [named(served, 'udp-spare')[1]!.terminate(), named(served, 'udp-0')[0]!.terminate()];
  served.server.update(served.world.table.share());
  await Promise.all(both);
  await until(async () => (await askUdp(at(served), WEB, 200)) !== undefined);
  t.ok(deaths(served).length > 0);
});

t.test('a spare that cannot be made is tried for again, until a stop', async (t) => {
  let made = 0;
  const workers = new AnswerWorkers(
    {
      createWorker: () => {
        made++;
        throw new Error('no memory');
      },
      spareAfter: SOON,
    },
    true,
  );
  t.teardown(() => workers.stop());
  workers.keepSpare();
  await until(() => made === 4);
  t.equal(workers.takeSpare(), undefined);
  await workers.stop();
  workers.keepSpare();
  await pause(10 * SOON);
  t.equal(made, 4, 'and not after it');
});

t.test('a stop asks the spare to end, and terminates it only when that is done', async (t) => {
  const done: string[] = [];
  const worker = Object.assign(new EventEmitter(), {
    unref() {},
    postMessage({ type }: { type: string }) {
      done.push(type);
      setImmediate(() => {
        done.push('exit');
        worker.emit('exit', 0);
      });
    },
    async terminate() {
      done.push('terminate');
    },
  });
  const workers = new AnswerWorkers({ createWorker: () => worker as unknown as Worker, spareAfter: 1 }, true);
  workers.keepSpare();
  await pause(SOON);
  await workers.stop();
  t.same(done, ['stop', 'exit', 'terminate']);
});

t.test('a spare that waits holds up no exit', async (t) => {
  const source = `
    import { Worker } from 'node:worker_threads';
    import { AnswerWorkers } from ${JSON.stringify(new URL('../src/server/answer-workers.js', import.meta.url).href)};
    const alive = setInterval(() => {}, 1000);
    const createWorker = (file, options) => new Worker(file, options).on('online', () => clearInterval(alive));
    new AnswerWorkers({ createWorker, spareAfter: 1 }, true).keepSpare();
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: 'inherit' });
  t.same(await once(child, 'exit'), [0, null]);
});
