/** Answer threads that fail, and transports that are not to be had. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { COUNTER } from '../src/server/counters.js';
import { CrashMarker } from '../src/system/crash-marker.js';
import { askUdp, localhost, question, Served, until, WEB } from './server-fixture.js';
import { blast } from './udp-blast.js';

t.setTimeout(120_000);

t.test('batched: a send that fails, stops half-way or is told to wait loses no answer', async (t) => {
  const served = await new Served('batched', 'stuttering send').start(t, { transport: 'batched' });
  const { bytes } = (await askUdp(localhost(served.port), WEB))!;
  t.equal(blast(served.port, WEB, bytes, 2_000), 2_000);
  t.match(served.server.transportCounters(), { sendErrors: 0, sendDrops: 0 });
});

for (const transport of ['batched', 'portable'] as const) {
  t.test(`${transport}: a thread that hangs is known, and which`, { timeout: 60_000 }, async (t) => {
    const served = await new Served(transport, 'hanging').start(t, { transport });
    const { server } = served;
    await until(() => server.silent().length === 0);
    await askUdp({ address: '127.0.0.1', port: served.port }, question('hang.svc.test', 'A'), 100);
    await until(() => server.silent().join() === 'udp-0');
    t.pass('and the others turn');
  });
}

t.test('batched: two threads share a port, and each answers', async (t) => {
  const served = await new Served('batched').start(t, { transport: 'batched', workers: 2 });
  for (let i = 0; i < 40; i++) t.ok(await askUdp(localhost(served.port), WEB), `client ${i}`);
  const [first, second] = served.server.counters().map((c) => c[COUNTER.udp]!);
  t.equal(first! + second!, 40);
  t.ok(first! > 0 && second! > 0, `shared out as ${first} and ${second}`);
  await served.server.setListen([localhost(served.port), { address: '::1', port: served.port }]);
  for (let i = 0; i < 20; i++) t.ok(await askUdp({ address: '::1', port: served.port }, WEB), `client ${i} of ::1`);
});

t.test('auto: koffi is not there', async (t) => {
  const served = await new Served('auto', 'no koffi').start(t, { transport: 'auto', workers: 2 });
  t.equal(served.server.transport, 'portable');
  t.ok(await askUdp(localhost(served.port), WEB));
  t.match(served.events('transport-portable'), [
    { level: 'warn', fields: { message: /koffi does not load: Cannot find/ } },
  ]);
  t.match(served.server.portableReason, /^koffi does not load: Cannot find/);
});

t.test('auto: a native call stops working', async (t) => {
  const served = await new Served('auto', 'receive fails').start(t, { transport: 'auto', workers: 2 });
  await until(async () => {
    await askUdp(localhost(served.port), WEB, 50);
    return served.server.transport === 'portable';
  });
  await until(async () => (await askUdp(localhost(served.port), WEB, 50)) !== undefined);
  t.match(served.events('transport-portable'), [{ level: 'warn', fields: { message: /recvmmsg: ENOSYS/ } }]);
  t.equal(served.server.portableReason, 'the batched one failed: recvmmsg: ENOSYS');
});

t.test('threads that die as they start make the start fail', async (t) => {
  const served = new Served('batched', 'stillborn');
  await t.rejects(served.start(t, { transport: 'batched' }), { message: /die as they start: Error: stillborn/ });
});

t.test('two starts that a signal ended make the next ones portable', async (t) => {
  const stateDir = t.testdir();
  const file = join(stateDir, 'udp-batched.json');
  const HOUR = 3_600_000;
  const at = 1_700_000_000_000;
  t.equal(new CrashMarker(file, 'boot').begin(at), true, 'the first start');
  t.equal(new CrashMarker(file, 'boot').begin(at), true, 'one death is chance');
  const avoiding = await new Served('auto').start(t, { transport: 'auto' });
  t.equal(avoiding.server.transport, 'batched', 'nothing is remembered without a directory');
  t.equal(new CrashMarker(file, 'boot').begin(at), false, 'two are not');
  t.equal(new CrashMarker(file, 'boot').begin(at + HOUR), false, 'nor for the next starts');
  t.equal(new CrashMarker(file, 'boot').begin(at + 25 * HOUR), true, 'a day later it is tried again');
  new CrashMarker(file, 'boot').clear();
  t.equal(new CrashMarker(file, 'boot').begin(at), true);
  t.equal(new CrashMarker(file, 'other boot').begin(at), true);
  t.equal(new CrashMarker(file, 'other boot').begin(at), true, 'a machine that went down is no death by signal');

  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  t.teardown(() => other.kill());
  new CrashMarker(file, 'boot', other.pid).begin(at);
  const second = new CrashMarker(file, 'boot');
  t.same([second.begin(at), second.begin(at), second.begin(at)], [true, true, true], 'who still runs has not died');
  second.clear();
  t.ok(existsSync(second.file), 'and the mark of it is its own to remove');
  const gone = once(other, 'exit');
  other.kill('SIGKILL');
  await gone;
  second.begin(at);
  new CrashMarker(file, 'boot').begin(at);
  t.equal(new CrashMarker(file, 'boot').begin(at), false, 'its death counts when it comes');

  rmSync(second.file);
  const real = new CrashMarker(file);
  real.begin(Date.now());
  real.begin(Date.now());
  const served = await new Served('auto').start(t, { transport: 'auto', stateDir });
  t.equal(served.server.transport, 'portable');
  t.match(served.events('transport-avoided'), [
    { level: 'warn', fields: { message: /udp-batched\.json to try again/ } },
  ]);
  t.match(served.server.portableReason, /^two starts .* were ended by a signal .*udp-batched\.json to try again\)$/);
});
