/** The hosts file as part of what a host's nameserver knows. */
import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ConfigError } from '../src/config/errors.js';
import { parseConfig } from '../src/config/load.js';
import { RCODE, TYPE } from '../src/dns/constants.js';
import { parseHosts } from '../src/forward/hosts-file.js';
import { HostsLink } from '../src/resolver/hosts-link.js';
import { a, Client, FakeUpstream, type Said, soa } from './forward-fixture.js';
import { until } from './server-fixture.js';

const NXDOMAIN: Said = { rcode: RCODE.NXDOMAIN, authorities: [soa(300, 60)] };

async function client(t: Test, text: string, behave: () => Said | undefined = () => ({ answers: [a('192.0.2.99')] })) {
  const upstream = await new FakeUpstream(behave).start(t);
  const asks = new Client(t, [upstream.at], { hosts: parseHosts(text) });
  const addresses = async (name: string, type: 'A' | 'AAAA' = 'A') =>
    (await asks.ask(name, type)).answers.map((record) => record.address);
  return { asks, upstream, addresses };
}

t.test('names of the file', async (t) => {
  const { asks, upstream, addresses } = await client(
    t,
    [
      '10.0.0.5\tnas.home.example  nas  # the box under the stairs',
      '10.0.0.6 NAS',
      'fd00::5 nas six.example.',
      '   10.0.0.7    dev.shop.test api.local',
      '',
      '# 10.0.0.8 commented.example',
      '10.0.0.9 under_score.example',
    ].join('\r\n'),
  );
  t.same(await addresses('nas.home.example'), ['10.0.0.5']);
  t.same(await addresses('Nas'), ['10.0.0.5', '10.0.0.6'], 'all lines of a name, whatever its letters');
  t.same(await addresses('nas', 'AAAA'), ['fd00::5']);
  t.same(await addresses('under_score.example'), ['10.0.0.9']);
  t.same(await addresses('dev.shop.test'), ['10.0.0.7'], 'below a special name that a host may use as it likes');
  t.same(await addresses('api.local'), ['10.0.0.7']);
  t.match(await asks.ask('nas.home.example', 'A'), { flags: { aa: 1, ra: 1 }, answers: [{ ttl: 10 }] });
  const empty = await asks.ask('nas.home.example', 'AAAA', { edns: { payload: 1232 } });
  t.match(empty, { rcode: RCODE.NOERROR, answers: [], authorities: [{ type: TYPE.SOA }], opts: 1 }, 'the other family');
  t.match(await asks.ask('nas', 'TXT'), { rcode: RCODE.NOERROR, answers: [], authorities: [{ type: TYPE.SOA }] });
  t.match(await asks.ask('nas', 'ANY'), { answers: [{ type: TYPE.A }, { type: TYPE.A }] });
  t.equal(upstream.heard.length, 0, 'nobody was asked');
  t.same(await addresses('commented.example'), ['192.0.2.99']);
});

t.test('addresses of the file have names, private ones too', async (t) => {
  const { asks, upstream } = await client(
    t,
    '127.0.1.1 box.corp.example box\n10.0.0.5 nas.corp.example nas\n10.0.0.5 other.example\nfd00::5 nas.corp.example\n0.0.0.0 ads.example\n127.0.0.1 localhost box',
  );
  const target = async (name: string) =>
    (await asks.ask(name, 'PTR')).answers.map((record) => (record as { domain?: string }).domain);
  t.same(await target('5.0.0.10.in-addr.arpa'), ['nas.corp.example'], 'the first name of the first line');
  t.same(await target('1.1.0.127.in-addr.arpa'), ['box.corp.example']);
  t.same(await target(`5.${'0.'.repeat(27)}0.0.d.f.ip6.arpa`), ['nas.corp.example']);
  t.same(await target('1.0.0.127.in-addr.arpa'), ['localhost']);
  t.equal((await asks.ask('0.0.0.0.in-addr.arpa', 'PTR')).rcode, RCODE.NXDOMAIN, 'of a block list nobody has the name');
  t.equal((await asks.ask('6.0.0.10.in-addr.arpa', 'PTR')).rcode, RCODE.NXDOMAIN);
  t.equal(upstream.heard.length, 0);
});

t.test('what the file cannot change', async (t) => {
  const { asks, addresses } = await client(
    t,
    '10.9.9.9 web.svc.internal localhost app.localhost nothing.invalid hidden.onion\n10.9.9.9 svc.internal',
  );
  t.equal((await asks.ask('web.svc.internal', 'A')).rcode, RCODE.REFUSED, 'names of zones are not its business');
  t.equal((await asks.ask('svc.internal', 'A')).rcode, RCODE.REFUSED);
  t.same(await addresses('localhost'), ['127.0.0.1']);
  t.same(await addresses('app.localhost'), ['127.0.0.1']);
  t.equal((await asks.ask('nothing.invalid', 'A')).rcode, RCODE.NXDOMAIN);
  t.equal((await asks.ask('hidden.onion', 'A')).rcode, RCODE.NXDOMAIN);
});

t.test('other types of such a name come from who knows them, and never say that it does not exist', async (t) => {
  let said: Said = { answers: [{ type: TYPE.TXT, rdata: Uint8Array.of(2, 0x68, 0x69) }] };
  const { asks, upstream } = await client(t, '10.0.0.5 mail.example', () => said);
  t.match(await asks.ask('mail.example', 'TXT'), { rcode: RCODE.NOERROR, answers: [{ type: TYPE.TXT }] });
  said = NXDOMAIN;
  for (const time of ['asked', 'from the cache']) {
    const reply = await asks.ask('mail.example', 'SRV');
    t.match(reply, { rcode: RCODE.NOERROR, answers: [], authorities: [{ type: TYPE.SOA }] }, time);
  }
  t.equal((await asks.ask('gone.example', 'A')).rcode, RCODE.NXDOMAIN, 'another name is as it is');
  t.equal(upstream.heard.length, 3);
});

t.test('more addresses than a message holds are cut and say so', async (t) => {
  const lines = Array.from({ length: 200 }, (_, i) => `10.1.${i >> 8}.${i & 255} many.example`);
  const { asks } = await client(t, lines.join('\n'));
  const cut = await asks.ask('many.example', 'A');
  t.equal(cut.flags.tc, 1);
  t.ok(cut.bytes.length <= 512 && cut.answers.length > 20, `${cut.answers.length} records in 512 bytes`);
  const large = await asks.ask('many.example', 'A', { edns: { payload: 4096 } });
  t.ok(large.bytes.length <= 1232 && large.flags.tc === 1);
  t.match(await asks.ask('many.example', 'A', { tcp: true }), { flags: { tc: 0 }, answers: { length: 200 } });
});

t.test('broken lines are left out, counted, and harm no other', async (t) => {
  const broken = [
    '\ufeff10.0.0.1 first.example',
    'fe80::1%eth0 scoped.example',
    '10.0.0 short.example',
    '010.0.0.1 octal.example',
    '10.0.0.2',
    '10.0.0.3 *.wild.example bad!name ok.example',
    `10.0.0.4 ${'x'.repeat(64)}.example ${'y.'.repeat(140)}example`,
    '10.0.0.5 10.0.0.5 a..b .',
    '\0\x01\x02',
    'fd00::zz six.example',
    '::ffff:10.0.0.6 mapped.example',
    '10.0.0.7 last.example',
  ];
  const hosts = parseHosts(broken.join('\n'));
  const names = [...hosts.addresses.keys()].map((wire) => wire.replace(/[\0-\x1f]/g, '.'));
  t.same(names, ['.first.example.', '.ok.example.', '.mapped.example.', '.last.example.']);
  t.equal(hosts.ignored, 13);
  t.match(hosts.examples, ['line 2: an address with a scope', 'line 3: no address', 'line 4: no address']);
  t.same([...parseHosts('').addresses], []);
  t.equal(parseHosts('#'.repeat(1_000_000)).ignored, 0);
});

t.test('a block list of 200,000 lines is read, and others have their turn meanwhile', async (t) => {
  const folder = t.testdir({});
  const file = join(folder, 'hosts');
  writeFileSync(file, Array.from({ length: 200_000 }, (_, i) => `0.0.0.0 host-${i}.ads.example`).join('\n'));
  let turns = 0;
  let read = false;
  const link = new HostsLink(
    file,
    () => {},
    () => (read = true),
  );
  t.teardown(() => link.stop());
  t.equal(link.hosts.addresses.size, 0, 'a long file is not waited for');
  const count = (): void => {
    turns++;
    if (!read) setImmediate(count);
  };
  const looked = link.look();
  count();
  await looked;
  t.equal(link.hosts.addresses.size, 200_000);
  t.ok(turns > 50, `${turns} turns`);
});

t.test('the file is followed while it changes, is replaced, is lost and comes back', async (t) => {
  const folder = t.testdir({ hosts: '10.0.0.1 one.example\n' });
  const file = join(folder, 'hosts');
  const lines: string[] = [];
  let changes = 0;
  const link = new HostsLink(
    file,
    (_, event) => lines.push(event),
    () => changes++,
  );
  t.teardown(() => link.stop());
  const names = () => [...link.hosts.addresses.keys()].map((wire) => wire.slice(1, 1 + wire.charCodeAt(0)));
  t.same(names(), ['one'], 'known before the first question');
  await link.look();
  writeFileSync(`${file}.new`, '10.0.0.2 two.example\nnonsense\n');
  renameSync(`${file}.new`, file);
  await link.look();
  t.same(names(), ['two'], 'replaced by rename');
  t.same(lines, ['hosts-file', 'hosts-file', 'hosts-file-ignored']);
  writeFileSync(file, '10.0.0.3 three.example\n');
  await link.look();
  t.same(names(), ['three'], 'written in place');
  const before = changes;
  await link.look();
  t.equal(changes, before, 'a look at the same file changes nothing');

  rmSync(file);
  await link.look();
  t.same(names(), ['three'], 'away for a moment');
  await link.look();
  t.same([names(), link.fault], [[], undefined], 'a host without the file has no such names');
  mkdirSync(file);
  await link.look();
  t.match(link.fault, /hosts cannot be read: it is a directory$/);
  rmSync(file, { recursive: true });
  writeFileSync(`${file}.real`, '10.0.0.4 four.example\n');
  symlinkSync(`${file}.real`, file);
  await link.look();
  t.same([names(), link.fault], [['four'], undefined], 'through a link');
  writeFileSync(`${file}.real`, '10.0.0.5 five.example\n');
  await link.look();
  t.same(names(), ['five'], 'and what is behind it');
  if (process.getuid?.() !== 0) {
    writeFileSync(`${file}.real`, '10.0.0.6 six.example\n');
    chmodSync(`${file}.real`, 0);
    await link.look();
    t.match([names(), link.fault], [['five'], /permission denied/], 'what cannot be read changes nothing');
  }
});

t.test('written a line at a time it is taken once it stands still', async (t) => {
  const folder = t.testdir({ hosts: '' });
  const file = join(folder, 'hosts');
  const link = new HostsLink(
    file,
    () => {},
    () => {},
  );
  t.teardown(() => link.stop());
  await link.look();
  writeFileSync(file, '10.0.0.1 one.example\n');
  const looking = link.look();
  setTimeout(() => writeFileSync(file, '10.0.0.1 one.example\n10.0.0.2 two.example\n'), 50);
  await looking;
  t.equal(link.hosts.addresses.size, 0, 'not half of it');
  await until(async () => {
    await link.look();
    return link.hosts.addresses.size === 2;
  });
});

t.test('in the configuration', async (t) => {
  const config = (hosts: string) =>
    parseConfig(
      `version: 1\nzones: [{ name: svc.internal, registry: { type: file, path: s.yaml } }]\nforward: { upstreams: ["192.0.2.1:53"]${hosts} }`,
      '/etc/holdfast/h.yaml',
      { stateDir: '/x', runDir: '/x' },
    ).forward?.hosts;
  t.equal(config(''), '/etc/hosts');
  t.equal(config(', hosts: none'), undefined);
  t.equal(config(', hosts: names'), '/etc/holdfast/names');
  t.throws(() => config(', hosts: ""'), ConfigError);
  t.throws(() => config(', hosts: 5'), ConfigError);
});
