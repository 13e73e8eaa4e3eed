/** Tokens, passwords, keys and certificates that are replaced while a registry is followed. */
import { unlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { ConsulRegistryConfig } from '../src/config/types.js';
import type { Adapter } from '../src/registry/adapter.js';
import { CredentialFiles } from '../src/registry/credential-files.js';
import { EtcdRegistry } from '../src/registry/etcd.js';
import { openAdapter } from '../src/registry/open.js';
import type { Row } from '../src/registry/registry.js';
import { configOf, fakeConsul, following, instance, LIMITS, until } from './consul-fixture.js';
import type { FakeConsul } from './fake-consul.js';

t.jobs = 8;

const LISTS = /^catalog\/services\?(?!.*(?:index=|node-meta))/;
/** Liveness reads: two a second, and one half of the pair each. */
const LIVENESS = /^catalog\/services\?.*node-meta/;

interface Setting {
  readonly fake: FakeConsul;
  readonly file: string;
  readonly adapter: Adapter;
}

/** A catalog of which the token `some` sees less than `all`: neither billing, nor what is on the node n2. */
async function setting(t: Test, token: string, more: Partial<ConsulRegistryConfig> = {}): Promise<Setting> {
  const fake = await fakeConsul(t);
  fake.set('orders', instance('o1', '10.0.0.1'));
  fake.set('orders', instance('o2', '10.0.0.2', { node: 'n2' }));
  fake.set('billing', instance('b1', '10.0.0.3'));
  for (let i = 0; i < 6; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.1.${i}`));
  fake.faults = { hiddenFrom: { some: (service, node) => service === 'billing' || node === 'n2' } };
  const file = join(t.testdir({ token: `${token}\n`, ca: 'one' }), 'token');
  const zone = { softTtl: 1000, limits: LIMITS, allowAddresses: [], naming: 'rfc2782', datacenters: [] } as const;
  const adapter = openAdapter({ ...configOf(fake), tokenFile: file, ...more }, zone);
  return { fake, file, adapter };
}

const addresses = (rows: readonly Row[] | undefined): string[] => (rows ?? []).map(({ address }) => address).sort();

for (const mirror of ['all', 'asked'] as const) {
  t.test(`Consul, mirror: ${mirror}: a token that sees more counts though no index moves`, async (t) => {
    const { fake, file, adapter } = await setting(t, 'some', { mirror });
    adapter.onDemand?.order(['orders', 'billing']);
    const { rows, renewals } = following(t, adapter);
    await until('the list', () => addresses(rows.get('orders')).length === 1);
    await until('the watches', () => fake.count(/[?&]index=/) >= 2);
    await until('a liveness read', () => fake.count(LIVENESS) >= (mirror === 'all' ? 1 : 2));
    t.notOk(rows.has('billing'));
    const lists = fake.count(LISTS);
    writeFileSync(file, 'all\n');
    await until('what was hidden', () => rows.has('billing') && addresses(rows.get('orders')).length === 2);
    await until('the old watches end', () => !fake.tokens.includes('some') && fake.tokens.includes('all'));
    const liveness = fake.count(LIVENESS);
    await until('some liveness reads', () => fake.count(LIVENESS) >= liveness + 4);
    t.same(renewals, [[file]], 'it is told once');
    t.equal(fake.count(LISTS), mirror === 'all' ? lists + 1 : 0, 'and listed once');
  });

  t.test(`Consul, mirror: ${mirror}: a token that sees less, and one that is revoked, take nothing away`, async (t) => {
    const { fake, file, adapter } = await setting(t, 'all', { mirror });
    adapter.onDemand?.order(['orders', 'billing']);
    const { rows, reports, renewals } = following(t, adapter);
    const whole = (): boolean => rows.has('billing') && addresses(rows.get('orders')).length === 2;
    await until('the list', whole);
    await until('the watches', () => fake.count(/[?&]index=/) >= 2);
    writeFileSync(file, 'some');
    const told = (): boolean => {
      const last = reports.findLast(({ kind }) => kind === 'list' || kind === 'change');
      return last !== undefined && 'rejected' in last && last.rejected.some(({ reason }) => /token/.test(reason));
    };
    await until('what is hidden is told', () => renewals.length === 1 && told());
    t.ok(whole(), 'nothing is taken away');
    writeFileSync(file, 'revoked');
    fake.faults = { ...fake.faults, revoked: ['revoked'] };
    await until('it is not heard', () => renewals.length === 2 && reports.at(-1)?.kind === 'unreachable');
    t.ok(whole());
    writeFileSync(file, 'all');
    await until('it is heard, and nothing is hidden', () => reports.at(-1)?.kind !== 'unreachable' && !told());
    t.ok(whole());
    t.same(renewals, [[file], [file], [file]]);
  });
}

t.test('connections that were opened with another certificate are ended', async (t) => {
  const caFile = join(t.testdirName, 'ca');
  const { fake, adapter } = await setting(t, 'all', { caFile });
  const { rows, renewals } = following(t, adapter);
  await until('the list', () => rows.has('billing'));
  await until('the watches', () => fake.count(/[?&]index=/) >= 4);
  const before = fake.connections;
  const reads = fake.count(/^health\/service|node-services/);
  writeFileSync(caFile, 'two');
  await until('they end', () => before.every(({ destroyed }) => destroyed));
  await until('others are watched by', () => fake.tokens.length >= 4);
  t.same(renewals, [[caFile]]);
  t.equal(fake.count(/^health\/service|node-services/), reads, 'what may be seen is the same');
});

t.test('etcd: another password asks for another token, and the watch begins again with it', async (t) => {
  const encode = (text: string): string => Buffer.from(text).toString('base64');
  const passwords: string[] = [];
  const watching = new Set<string>();
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const header = { cluster_id: '1', revision: '7' };
      const token = String(req.headers.authorization);
      if (req.url === '/v3/auth/authenticate') {
        const { password } = JSON.parse(Buffer.concat(chunks).toString()) as { password: string };
        passwords.push(password);
        res.end(JSON.stringify({ token: `token-of-${password}` }));
      } else if (req.url === '/v3/watch') {
        watching.add(token);
        res.write(`${JSON.stringify({ result: { header, created: true } })}\n`);
        // A busy one: liveness reads are never due.
        const busy = setInterval(() => res.write(`${JSON.stringify({ result: { header } })}\n`), 50);
        res.once('close', () => {
          clearInterval(busy);
          watching.delete(token);
        });
      } else {
        const kvs = [{ key: encode('/p/web/1'), value: encode('{"address":"10.0.0.1","port":80}'), mod_revision: '5' }];
        res.end(JSON.stringify({ header, kvs, count: '1' }));
      }
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const passwordFile = join(t.testdir({ password: 'one' }), 'password');
  const adapter = new EtcdRegistry(
    { type: 'etcd', endpoints: [endpoint], prefix: '/p', layout: 'plain', username: 'me', passwordFile },
    { softTtl: 1000, limits: LIMITS, allowAddresses: [] },
  );
  const { rows, renewals } = following(t, adapter);
  await until('the watch', () => rows.has('web') && watching.has('token-of-one'));
  writeFileSync(passwordFile, 'two');
  await until('another watch', () => watching.has('token-of-two') && !watching.has('token-of-one'));
  t.same(passwords, ['one', 'two']);
  t.same(renewals, [[passwordFile]]);
});

t.test('which files were replaced', async (t) => {
  const folder = t.testdir({ token: 'a', key: 'k' });
  const [token, keyFile] = [join(folder, 'token'), join(folder, 'key')];
  const renewals: (readonly string[])[] = [];
  const files = new CredentialFiles(token, { keyFile }, (changed) => renewals.push(changed));
  t.same(await files.take(), [], 'the first are no others');
  t.notOk(await files.replaced());
  writeFileSync(token, 'a\n');
  t.notOk(await files.replaced(), 'the end of a line is none of a secret');
  writeFileSync(token, '');
  t.notOk(await files.replaced(), 'one that is being written is none yet');
  unlinkSync(token);
  t.notOk(await files.replaced(), 'nor is one that is away: whoever needs it says so');
  t.same(await files.take(), []);
  writeFileSync(token, 'a');
  t.same(await files.take(), [], 'it has come back as it was');
  writeFileSync(token, 'b');
  writeFileSync(keyFile, 'l');
  t.ok(await files.replaced());
  t.same(await files.take(), [token, keyFile]);
  t.notOk(await files.replaced());
  t.same(await files.take(), []);
  t.same(renewals, [[token, keyFile]]);
  const none = new CredentialFiles(undefined);
  t.same([await none.take(), await none.replaced()], [[], false]);
});
