/**
 * The prober in a network that loses packets, drops all of them, or is not there: no answer loses an endpoint (R15, R16),
 * each is seen in the status, a metric and one line of the log, and what it leaves in the host's tables is bounded (R17).
 */
import t from 'tap';
import { ProberScene } from '../../blackbox/prober-scene.js';
import { FarSide, trackConnections, trackedConnections } from './far-side.js';
import { CHECK, SERVICES } from './scene.js';

const SUSPECTED = 'holdfast_suspect_self{family="IPv4"}';

/** `reason`: why there is no network for this. */
export async function badNetwork(reason: string | undefined): Promise<void> {
  t.setTimeout(115_000);
  if (reason !== undefined) {
    console.error(`skipped: the prober in a bad network (${reason})`);
    await t.test('the prober in a bad network', { skip: reason }, async () => {});
    return;
  }
  const far = await FarSide.start();
  t.teardown(() => far.stop());
  const tracked = trackConnections() || 'connections are not tracked here (Debian: iptables)';
  if (tracked !== true) console.error(`skipped: lost packets, and the table of connections (${tracked})`);
  const skip = tracked !== true && tracked;

  // First, while no other test has left entries.
  await t.test('R17: half a percent of the packets is lost; connections leave next to nothing', { skip }, async (t) => {
    const share = 0.01;
    const services = { a: FarSide.endpoints(0, 100), b: FarSide.endpoints(1, 100), c: FarSide.endpoints(2, 100) };
    const prober = `{ conntrackShare: ${share} }`;
    const scene = await ProberScene.start(t, { check: CHECK, services, prober });
    far.lose(0.005);
    t.teardown(() => far.loseNothing());
    const most = { tracked: 0, timeWait: 0, heldBack: 0 };
    const end = performance.now() + 25_000;
    while (performance.now() < end) {
      await scene.lasting(500);
      most.tracked = Math.max(most.tracked, trackedConnections()?.count ?? Number.NaN);
      most.timeWait = Math.max(most.timeWait, far.timeWait());
      most.heldBack = Math.max(most.heldBack, await scene.metric('holdfast_zone_endpoints_held_back'));
    }
    const room = share * trackedConnections()!.most;
    t.comment(`${most.tracked} of ${room} entries, ${most.timeWait} in TIME_WAIT, ${await scene.failures()} failures`);
    t.ok(most.tracked <= room, `entries: ${most.tracked}, of ${room} that the prober may have`);
    t.ok(most.tracked > room / 10, 'they are counted');
    t.ok(most.timeWait <= 2, `none is in TIME_WAIT: ${most.timeWait}`);
    t.equal(most.heldBack, 0, 'none is held back');
    await scene.meanwhile('the short budget in the log', () => scene.count('prober-late') > 0);
    t.match(scene.problems(), /the prober is late/);
  });

  const cut = [() => far.cut(), () => far.mend()] as const;
  for (const [how, services, begin, end] of [
    ['drops all packets', SERVICES, ...cut],
    ['drops all packets to the only service, which is in one network', { a: FarSide.endpoints(0, 10) }, ...cut],
    ['has no route', SERVICES, () => far.unroute(), () => far.reroute()],
  ] as const)
    await t.test(`R16: the network ${how}, and is mended`, async (t) => {
      const scene = await ProberScene.start(t, { check: CHECK, services });
      begin();
      await scene.meanwhile('suspicion in the log', () => scene.count('suspect-self') > 0);
      await scene.meanwhile('in the metric', async () => (await scene.metric(SUSPECTED)) === 1);
      t.match(scene.problems(), /over IPv4 timeouts are not believed/);
      // So long that each would be out by its own failures, and that no word would be left without results.
      await scene.lasting(4_000);
      end();
      await scene.meanwhile('its end in the log', () => scene.count('suspect-self-ended') > 0);
      t.equal(await scene.metric(SUSPECTED), 0);
      await scene.lasting(2_000);
      t.equal(scene.count('suspect-self'), 1, 'one line');
      t.equal(scene.count('suspect-self-ended'), 1);
    });
}
