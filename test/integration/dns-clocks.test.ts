/** The clock of this host is another than that of the name server: alone in its process, which has one clock. */
import { join } from 'node:path';
import t from 'tap';
import { KINDS, notHeard, observe, recovers, server } from './dns-stories.js';
import { type DnsProgram, missingFor } from './name-server-programs.js';

t.setTimeout(110_000);

const KEY = {
  name: 'clocks',
  algorithm: 'hmac-sha256',
  secret: Buffer.from('a secret of 32 bytes, as one has').toString('base64'),
};

for (const program of ['knotd', 'nsd', 'named'] as const satisfies readonly DnsProgram[]) {
  t.test(
    `${program}: signatures of another time are not believed, and that is said`,
    { skip: missingFor(program) },
    async (t) => {
      const source = await server(t, { program, key: KEY });
      const key = join(t.testdir({ key: `${KEY.algorithm}:${KEY.name}:${KEY.secret}` }), 'key');
      const zone = await observe(t, `${KINDS.axfr(`127.0.0.1:${source.port}`)}, tsigKeyFile: ${key}`);
      const { now } = Date;
      t.teardown(() => (Date.now = now));
      for (const minutes of [10, -10]) {
        Date.now = () => now() + minutes * 60_000;
        await zone.until('it says so', notHeard(zone, /not believable: .*the clocks differ by more than 5 min/));
        await zone.pass(1_000);
        Date.now = () => now() + Math.sign(minutes) * 240_000;
        await recovers(zone, source);
        t.ok(zone.status.heard, `${minutes} min, then less`);
        await source.put('late', ['10.0.9.1']);
      }
    },
  );
}
