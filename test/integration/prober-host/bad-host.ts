/**
 * The prober is starved, stopped, killed and left without descriptors: no answer loses an endpoint in any of these (R13 to
 * R15), and each is seen in the status, a metric and one line of the log. Endpoints are not on this host.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ProberScene } from '../../blackbox/prober-scene.js';
import { CpuGroup } from './cpu-group.js';
import { FarSide, run } from './far-side.js';
import { CHECK, SERVICES } from './scene.js';

/** `reason`: why there is no network for this. */
export async function badHost(reason: string | undefined): Promise<void> {
  t.setTimeout(115_000);
  if (reason !== undefined) {
    console.error(`skipped: the prober on a bad host (${reason})`);
    await t.test('the prober on a bad host', { skip: reason }, async () => {});
    return;
  }
  const far = await FarSide.start();
  t.teardown(() => far.stop());

  await t.test('R15: the prober gets half a percent of a core', async (t) => {
    const group = CpuGroup.make(`holdfast-test-${process.pid}`, 0.005);
    if (typeof group === 'string') return console.error(`skipped: starvation (${group})`);
    const scene = await ProberScene.start(t, { check: CHECK, services: SERVICES });
    const failures = await scene.failures();
    const pid = scene.prober.child.pid!;
    group.add(pid);
    t.teardown(() => group.end(pid));
    await scene.meanwhile('lateness in the log', () => scene.count('prober-late') + scene.count('prober-stale') > 0);
    t.match(scene.problems(), /the prober is (late|silent)/);
    t.ok(
      (await scene.metric('holdfast_prober_late_seconds')) >= 1 || (await scene.metric('holdfast_prober_stale')) === 1,
      'in the metric',
    );
    await scene.lasting(8_000);
    t.equal(await scene.failures(), failures, 'and nothing failed');
    t.ok(scene.count('prober-late') <= 1, 'one line');
  });

  await t.test('the prober stands still for 40 intervals, goes on, and is killed', async (t) => {
    const scene = await ProberScene.start(t, { check: CHECK, services: SERVICES });
    const failures = await scene.failures();
    scene.prober.kill('SIGSTOP');
    for (let i = 0; i < 2; i++) await scene.lasting(10_000);
    t.match(scene.problems(), /the prober is silent/);
    t.equal(await scene.metric('holdfast_prober_stale'), 1);
    t.equal(scene.count('prober-stale'), 1, 'one line');
    scene.prober.kill('SIGCONT');
    await scene.meanwhile('its word', async () => (await scene.metric('holdfast_prober_stale')) === 0);
    const passes = await scene.passes();
    await scene.meanwhile('each probed again', async () => (await scene.passes()) >= passes + 3 * scene.size);
    t.equal(await scene.failures(), failures, 'what was under way did not count');
    scene.prober.kill('SIGKILL');
    await scene.meanwhile('silence', async () => (await scene.metric('holdfast_prober_stale')) === 1);
    t.equal(scene.count('prober-gone'), 1, 'one line');
    await scene.lasting(1_000);
  });

  const noLimit = spawnSync('prlimit', ['--version']).status !== 0 && 'no prlimit here (Debian: util-linux)';
  await t.test('the prober may open nothing any more, for a while', { skip: noLimit }, async (t) => {
    const scene = await ProberScene.start(t, { check: CHECK, services: SERVICES });
    const failures = await scene.failures();
    const pid = scene.prober.child.pid!;
    const before = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))![1]!;
    const limit = (count: string) => run('prlimit', '--pid', `${pid}`, `--nofile=${count}:`);
    limit('3');
    await scene.meanwhile('it in the log', () => scene.count('prober-short') > 0);
    await scene.meanwhile('it in the metric', async () => (await scene.metric('holdfast_prober_short')) === 1);
    t.match(scene.problems(), /fault of this host \(EMFILE/);
    await scene.lasting(3_000);
    limit(before);
    await scene.meanwhile('its end', () => scene.count('prober-short-ended') > 0);
    const passes = await scene.passes();
    await scene.meanwhile('each probed again', async () => (await scene.passes()) >= passes + 2 * scene.size);
    t.equal(await scene.failures(), failures, 'and nothing failed');
    t.equal(scene.count('prober-short'), 1, 'one line');
    t.equal(scene.prober.alive, true);
  });
}
