/** Zones taken from every name server that one meets: transfers, NOTIFY, and signatures of both (TSIG, RFC 8945). */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePorts } from '../ports.js';
import { KINDS, notHeard, observe, open, proxyTo, recovers, server } from './dns-stories.js';
import { type DnsProgram, missingFor, type SharedKey } from './name-server-programs.js';

t.jobs = 6;
t.setTimeout(110_000);

const SECRET = Buffer.from('a secret of 32 bytes, as one has').toString('base64');
const OTHER = Buffer.from('another secret, which is as long').toString('base64');
const KEY: SharedKey = { name: 'holdfast-xfr', algorithm: 'hmac-sha256', secret: SECRET };

/** As tsig-keygen writes it. */
const keyFile = ({ name, algorithm, secret }: SharedKey): string =>
  `key "${name}" {\n\talgorithm ${algorithm};\n\tsecret "${secret}";\n};\n`;

function writeKey(t: Test, text: string): string {
  return join(t.testdir({ key: text }), 'key');
}

for (const program of ['knotd', 'nsd', 'named'] as const satisfies readonly DnsProgram[]) {
  const skip = missingFor(program);
  if (skip !== false) console.error(`skipped: the stories of ${program} (${skip})`);
  const tell = (title: string, story: (t: Test) => Promise<void>): void =>
    void t.test(`${program}: ${title}`, { skip, buffered: true }, story);

  tell('a zone is taken, follows its changes, and outlives a restart', async (t) => {
    const source = await server(t, { program });
    const zone = await observe(t, KINDS.axfr(`127.0.0.1:${source.port}`));
    await recovers(zone, source);
    await source.stop();
    await zone.until('the outage is told', notHeard(zone, /connection refused/));
    await source.restart();
    await source.put('late', ['10.0.9.7']);
    await zone.until('the change', () => zone.addresses('late').includes('10.0.9.7') && zone.status.heard);
  });

  for (const key of [undefined, KEY]) {
    tell(`NOTIFY${key === undefined ? '' : ', signed,'} brings a change before the timer does`, async (t) => {
      const [notify] = (await freePorts(1)) as [number];
      const source = await server(t, { program, notify, ...(key === undefined ? {} : { key }) });
      const signed = key === undefined ? '' : `, tsigKeyFile: ${writeKey(t, keyFile(key))}`;
      const registry = KINDS.axfr(`127.0.0.1:${source.port}`).replace('1s', `5m, notify: "127.0.0.1:${notify}"`);
      const zone = await observe(t, `${registry}${signed}`, '10m');
      await recovers(zone, source);
      t.notMatch(zone.logged.join('\n'), /NOTIFY/);
    });
  }

  tell('a server that wants signatures gives nothing without', async (t) => {
    const source = await server(t, { program, key: KEY });
    const zone = open(t, KINDS.axfr(`127.0.0.1:${source.port}`));
    await zone.until('it is told', notHeard(zone, /not believable: .*(NOTAUTH|REFUSED)/));
    t.equal(zone.status.state, 'never-synced');
  });

  for (const algorithm of ['hmac-sha1', 'hmac-sha224', 'hmac-sha256', 'hmac-sha384', 'hmac-sha512']) {
    tell(`a zone is taken with ${algorithm}`, async (t) => {
      const key = { ...KEY, algorithm };
      const source = await server(t, { program, key });
      const zone = await observe(
        t,
        `${KINDS.axfr(`127.0.0.1:${source.port}`)}, tsigKeyFile: ${writeKey(t, `${algorithm}:${key.name}:${SECRET}\n`)}`,
      );
      await recovers(zone, source);
    });
  }

  tell('a zone of many messages is taken signed, and names are looked up signed', async (t) => {
    const source = await server(t, { program, key: KEY });
    const path = writeKey(t, keyFile(KEY));
    for (let s = 0; s < 60; s++)
      source.services.set(
        `many-${s}`,
        Array.from({ length: 50 }, (_, i) => `10.1.${s}.${i}`),
      );
    await source.put('last', ['10.2.0.1']);
    const zone = await observe(t, `${KINDS.axfr(`127.0.0.1:${source.port}`)}, tsigKeyFile: ${path}`);
    await zone.until('all of it', () => zone.status.services === 64);
    const looked = await observe(t, `${KINDS.names(`127.0.0.1:${source.port}`)}, tsigKeyFile: ${path}`);
    await recovers(looked, source);
  });

  tell(
    'another secret, another key, another algorithm: it is said, nothing is lost, and a new file is enough',
    async (t) => {
      const source = await server(t, { program, key: KEY });
      const path = writeKey(t, keyFile(KEY));
      const proxy = await proxyTo(t, source.port);
      const zone = await observe(t, `${KINDS.axfr(proxy.origin)}, tsigKeyFile: ${path}`);
      const start = performance.now();
      for (const [key, says] of [
        [{ ...KEY, secret: OTHER }, /not believable: .*NOTAUTH \(BADSIG: the server has another secret/],
        [{ ...KEY, name: 'stranger' }, /not believable: .*NOTAUTH \(BADKEY: the server does not know the key/],
        [{ ...KEY, algorithm: 'hmac-sha512' }, /not believable: .*(NOTAUTH|FORMERR|not signed|another key)/],
      ] as const) {
        writeFileSync(path, keyFile(key));
        await zone.until(`it says so: ${says}`, notHeard(zone, says));
      }
      writeFileSync(path, 'no key at all');
      await zone.until('the file is told', notHeard(zone, /key cannot be used: it is neither/));
      await zone.pass(1_000);
      const seconds = (performance.now() - start) / 1000;
      t.ok(proxy.requests.length <= 20 + 8 * seconds, `${proxy.requests.length} requests in ${seconds.toFixed(1)} s`);
      writeFileSync(path, keyFile(KEY));
      await recovers(zone, source);
      const told = JSON.stringify([zone.reports, zone.logged, zone.status]);
      for (const word of [SECRET, OTHER, 'no key at all']) t.notOk(told.includes(word), 'no secret is told');
    },
  );

  tell('answers that are changed on the way are not believed', async (t) => {
    const source = await server(t, { program, key: KEY });
    const proxy = await proxyTo(t, source.port);
    const zone = await observe(t, `${KINDS.axfr(proxy.origin)}, tsigKeyFile: ${writeKey(t, keyFile(KEY))}`);
    await proxy.break({ kind: 'no-data' });
    await zone.until('it is told', notHeard(zone, /not believable: .*the answer is not signed/));
    await proxy.break({ kind: 'flip' });
    await zone.until('it is told', notHeard(zone, /not believable: .*the signature of the answer is wrong/));
    await proxy.mend();
    await recovers(zone, source);
  });
}
