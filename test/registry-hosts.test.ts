/** D51: what a registry's own host name is, and what is remembered of it. */

import type { LookupAddress } from 'node:dns';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type HostFound, RegistryHosts } from '../src/registry/registry-hosts.js';

const found = (...addresses: string[]): HostFound => ({ kind: 'addresses', addresses });

function hosts(t: Test, answer: (host: string) => HostFound | Promise<HostFound>, text?: string) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'hosts.json');
  if (text !== undefined) writeFileSync(file, text);
  const asked: string[] = [];
  const ask = async (host: string): Promise<HostFound> => {
    asked.push(host);
    return answer(host);
  };
  return { file, asked, hosts: new RegistryHosts({ file, ask }) };
}

const look = (of: RegistryHosts, host: string, options: { all?: boolean; family?: number } = {}) =>
  new Promise<{ error: NodeJS.ErrnoException | null; address: string | LookupAddress[]; family?: number | undefined }>(
    (resolve) => of.lookup(host, options, (error, address, family) => resolve({ error, address, family })),
  );

t.test('as dns.lookup: one, all, one family', async (t) => {
  const { hosts: of } = hosts(t, () => found('10.0.0.1', 'fd00::1'));
  t.match(await look(of, 'a.example'), { error: null, address: '10.0.0.1', family: 4 });
  t.match(await look(of, 'a.example', { family: 6 }), { error: null, address: 'fd00::1', family: 6 });
  t.match(await look(of, 'a.example', { all: true }), {
    address: [
      { address: '10.0.0.1', family: 4 },
      { address: 'fd00::1', family: 6 },
    ],
  });
  const { hosts: four } = hosts(t, () => found('10.0.0.1'));
  t.match(await look(four, 'a.example', { family: 6 }), { error: { code: 'ENOTFOUND', message: /no IPv6 address/ } });
});

t.test('asked at once, it is one question; the next time, another', async (t) => {
  const { hosts: of, asked } = hosts(t, () => found('10.0.0.1'));
  await Promise.all(Array.from({ length: 20 }, () => of.addresses('a.example')));
  t.same(asked, ['a.example']);
  await of.addresses('a.example');
  t.equal(asked.length, 2);
});

t.test('what it was last is remembered, over restarts, failures and silence', async (t) => {
  const first = hosts(t, () => found('10.0.0.1'));
  await first.hosts.addresses('a.example');
  const text = await new Promise<string>((resolve) => {
    const timer = setInterval(() => {
      try {
        resolve(readFileSync(first.file, 'utf8'));
        clearInterval(timer);
      } catch {}
    }, 10);
  });
  t.equal(statSync(first.file).mode & 0o777, 0o600);
  const failing = hosts(t, () => ({ kind: 'failed', reason: 'no answer' }), text);
  t.same(await failing.hosts.addresses('a.example'), ['10.0.0.1']);
  await t.rejects(failing.hosts.addresses('b.example'), { message: 'no answer' });
  const silent = hosts(t, () => new Promise<HostFound>(() => undefined), text);
  t.same(await silent.hosts.addresses('a.example'), ['10.0.0.1']);
  const moved = hosts(t, () => found('10.0.0.9'), text);
  t.same(await moved.hosts.addresses('a.example'), ['10.0.0.9'], 'a new word wins');
  const both = '{"version":1,"hosts":{"a.example":["10.0.0.1","fd00::1"]}}';
  const half = hosts(t, () => ({ kind: 'addresses', addresses: ['10.0.0.9'], unknown: 6 }), both);
  t.same(await half.hosts.addresses('a.example'), ['10.0.0.9', 'fd00::1'], 'a family of which there is no word stands');
  t.same(await half.hosts.addresses('a.example'), ['10.0.0.9', 'fd00::1']);
});

t.test('a file that is not ours, or damaged, is nothing', async (t) => {
  for (const text of ['', '{', '[]', 'null', '{"version":2,"hosts":{"a.example":["10.0.0.1"]}}', '{"version":1}']) {
    const { hosts: of } = hosts(t, () => ({ kind: 'failed', reason: 'no answer' }), text);
    await t.rejects(of.addresses('a.example'), { message: 'no answer' }, text);
  }
  const odd = '{"version":1,"hosts":{"a.example":["x",7,"10.0.0.1"],"b.example":"10.0.0.1"}}';
  const { hosts: of } = hosts(t, () => ({ kind: 'failed', reason: 'no answer' }), odd);
  t.same(await of.addresses('a.example'), ['10.0.0.1']);
  await t.rejects(of.addresses('b.example'));
});

t.test('with nobody to ask, the host itself is', async (t) => {
  const { hosts: of } = hosts(t, () => ({ kind: 'nobody' }));
  const addresses = await of.addresses('localhost');
  t.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'));
});
