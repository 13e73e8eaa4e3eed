/** Making a host's nameserver, and taking it back, in a folder that stands for the host. */
import { chmodSync, lstatSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../src/config/load.js';
import { readJournal } from '../src/install/journal.js';
import { planInstall } from '../src/install/plan.js';
import { Folder, OLD, PROGRAM, ZONES } from './install-fixture.js';

t.setTimeout(120_000);

t.test('a plain resolv.conf: shown first, done, done again, and taken back to the byte', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  chmodSync(join(host.root, 'etc/resolv.conf'), 0o640);
  const before = host.all();
  const shown = host.run('install');
  t.equal(shown.code, 0, shown.err);
  for (const path of ['/etc/resolv.conf', '/etc/holdfast/resolv.conf', '/etc/systemd/system/holdfast.service'])
    t.ok(shown.out.includes(`write   ${path}: `), path);
  t.match(shown.out, /\| nameserver 127\.0\.0\.1\n/);
  t.match(shown.out, /back {4}uninstall puts back the file as it is now, 79 bytes/);
  t.match(shown.out, /Nothing has been changed\. With --yes it is done/);
  t.same(host.all(), before, 'nothing was changed');
  t.match(host.run('uninstall', '--yes'), { code: 0, out: 'nothing to do: it is not installed\n' });

  t.match(host.run('install', '--yes'), { code: 0, err: '' });
  const lines = host.read('/etc/resolv.conf').split('\n');
  t.match(lines, [/^# Written by/, 'nameserver 127.0.0.1', 'search corp.example', 'options edns0', '']);
  t.match(host.read('/etc/holdfast/resolv.conf'), /^#.*\nnameserver 192\.0\.2\.1\nnameserver 2001:db8::1\n$/);
  t.match(host.read('/etc/systemd/system/holdfast.service'), /^ExecStart=\S+ \S+bin\/holdfast\.js serve --last-good$/m);
  t.match(
    host.read('/etc/systemd/system/holdfast.socket.d/listen.conf'),
    /\[Socket\]\nListenStream=\nListenDatagram=127\.0\.0\.1:53\nListenStream=127\.0\.0\.1:53\n$/,
  );
  const installed = host.all();
  t.match(host.run('install', '--yes'), { code: 0, out: 'nothing to do: it is installed\n' });
  t.match(host.run('install'), { code: 0, out: 'nothing to do: it is installed\n' });
  t.same(host.all(), installed);

  const back = host.run('uninstall');
  t.match(back.out, /restore \/etc\/resolv\.conf: uninstall puts back the file as it was\n/);
  t.same(host.all(), installed, 'shown only');
  t.match(host.run('uninstall', '--yes'), { code: 0, out: /uninstalled: the host is as it was\n$/ });
  t.same(host.all(), before);
});

t.test('who else writes resolv.conf', async (t) => {
  const live = 'nameserver 192.0.2.7\n';
  t.test('systemd-resolved: its link, and the file with the servers of the network', async (t) => {
    const host = new Folder(t, {
      '/etc/resolv.conf': { link: '../run/systemd/resolve/stub-resolv.conf' },
      '/run/systemd/resolve/stub-resolv.conf': 'nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lan.example\n',
      '/run/systemd/resolve/resolv.conf': live,
    });
    const before = host.all();
    t.match(host.run('install', '--yes'), { code: 0, err: '' });
    t.equal(readlinkSync(join(host.root, '/etc/holdfast/resolv.conf')), '/run/systemd/resolve/resolv.conf');
    t.notOk(lstatSync(join(host.root, '/etc/resolv.conf')).isSymbolicLink());
    t.match(host.read('/etc/resolv.conf'), /nameserver 127\.0\.0\.1\noptions edns0 trust-ad\nsearch lan\.example\n/);
    t.match(host.read('/run/systemd/resolve/stub-resolv.conf'), /127\.0\.0\.53/, 'what the link led to is untouched');
    t.match(host.run('uninstall', '--yes'), { code: 0 });
    t.same(host.all(), before);
  });

  t.test('NetworkManager and dhclient are told to leave it alone; others are named', async (t) => {
    const host = new Folder(t, {
      '/etc/resolv.conf': { link: '/run/NetworkManager/resolv.conf' },
      '/run/NetworkManager/resolv.conf': live,
      '/etc/NetworkManager/conf.d/': '',
      '/etc/dhcp/dhclient-enter-hooks.d/': '',
      '/etc/dhcpcd.conf': 'hostname\n',
    });
    const before = host.all();
    const { code, out } = host.run('install', '--yes');
    t.equal(code, 0);
    t.match(out, /note: dhcpcd \(`nohook resolv\.conf` in \/etc\/dhcpcd\.conf\) is here/);
    t.match(host.read('/etc/NetworkManager/conf.d/holdfast.conf'), /rc-manager=unmanaged/);
    t.match(host.read('/etc/dhcp/dhclient-enter-hooks.d/holdfast'), /make_resolv_conf\(\) \{ :; \}/);
    t.equal(readlinkSync(join(host.root, '/etc/holdfast/resolv.conf')), '/run/NetworkManager/resolv.conf');
    t.match(host.run('uninstall', '--yes'), { code: 0 });
    t.same(host.all(), before);
  });

  t.test('none: the file is made, and goes again', async (t) => {
    const host = new Folder(t, {}, `version: 1\nforward: { upstreams: ["192.0.2.1:53"] }\n${ZONES}\n`);
    const before = host.all();
    t.match(host.run('install', '--yes'), { code: 0 });
    t.match(host.read('/etc/resolv.conf'), /nameserver 127\.0\.0\.1\n/);
    t.match(host.run('uninstall', '--yes'), { code: 0 });
    t.same(host.all(), before);
  });
});

t.test('systemd-resolved asks us for the zones, with an anchor that says that they are not signed', async (t) => {
  const config = `version: 1\nlisten: ["127.0.0.54:53", "[::1]:5353"]\nzones:\n  - { name: svc.internal, registry: { type: file, path: a.yaml } }\n  - { name: db.example, registry: { type: file, path: b.yaml } }\n`;
  const host = new Folder(t, { '/etc/resolv.conf': { link: '/run/systemd/resolve/stub-resolv.conf' } }, config);
  const before = host.all();
  t.match(host.run('install', '--yes'), { code: 0, err: '' });
  t.match(
    host.read('/etc/systemd/resolved.conf.d/holdfast.conf'),
    /\n\[Resolve\]\nDNS=127\.0\.0\.54 \[::1\]:5353\nDomains=~svc\.internal ~db\.example\n$/,
  );
  t.match(host.read('/etc/dnssec-trust-anchors.d/holdfast.negative'), /\nsvc\.internal\.\ndb\.example\.\n$/);
  t.match(host.run('uninstall', '--yes'), { code: 0 });
  t.same(host.all(), before);
  const forwarding = new Folder(t, { '/etc/resolv.conf': OLD });
  t.match(forwarding.run('install', '--mode', 'resolved', '--yes'), { code: 0 });
  t.equal(forwarding.read('/etc/resolv.conf'), OLD, 'resolv.conf is not touched');
});

t.test('what others have changed since is theirs', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  host.run('install', '--yes');
  const mine = `${host.read('/etc/resolv.conf')}options rotate\n`;
  writeFileSync(join(host.root, '/etc/resolv.conf'), mine);
  const left = host.run('uninstall', '--yes');
  t.match(left, { code: 1, out: /left \/etc\/resolv\.conf alone: it was changed since; --force takes it back/ });
  t.equal(host.read('/etc/resolv.conf'), mine);
  t.match(
    host.read('/etc/systemd/system/holdfast.socket'),
    /ListenDatagram/,
    'it names this server still, which is not taken from the host',
  );
  t.match(host.run('uninstall'), { out: /leave {3}.*holdfast\.service: \/etc\/resolv\.conf names this server still/ });
  t.match(host.run('uninstall', '--yes', '--force'), { code: 0 });
  t.equal(host.read('/etc/resolv.conf'), OLD);

  host.run('install', '--yes');
  writeFileSync(join(host.root, '/etc/resolv.conf'), 'nameserver 192.0.2.9\n');
  for (const args of [[], ['--force']])
    t.match(host.run('uninstall', ...args), {
      code: 0,
      out: /leave {3}\/etc\/resolv\.conf: somebody else has written it/,
    });
  t.match(host.run('uninstall', '--yes'), { code: 0 });
  t.equal(host.read('/etc/resolv.conf'), 'nameserver 192.0.2.9\n', 'the network has moved on');
  t.equal(readJournal(host.root), undefined);
});

t.test('installed again when things have changed', async (t) => {
  t.test('what a link named before is still known', async (t) => {
    const host = new Folder(t, {
      '/etc/resolv.conf': { link: '../run/NetworkManager/resolv.conf' },
      '/run/NetworkManager/resolv.conf': 'nameserver 192.0.2.7\n',
    });
    t.match(host.run('install', '--yes'), { code: 0, err: '' });
    rmSync(join(host.root, '/etc/holdfast/resolv.conf'));
    t.match(host.run('install', '--yes'), { code: 0, err: '' });
    t.equal(readlinkSync(join(host.root, '/etc/holdfast/resolv.conf')), '/run/NetworkManager/resolv.conf');
  });

  t.test('without `forward` by now: not while the host asks us alone', async (t) => {
    const host = new Folder(t, { '/etc/resolv.conf': OLD, '/etc/systemd/resolved.conf': '[Resolve]\n' });
    t.match(host.run('install', '--yes'), { code: 0, err: '' });
    host.put({ '/etc/holdfast/holdfast.yaml': `version: 1\n${ZONES}\n` });
    const before = host.all();
    t.match(host.run('install', '--yes'), { code: 1, err: /names this server.*`holdfast uninstall --yes` first/ });
    t.same(host.all(), before);
    t.match(host.run('uninstall', '--yes'), { code: 0 });
    t.match(host.run('install', '--yes'), { code: 0, err: '' });
    t.equal(host.read('/etc/resolv.conf'), OLD);
  });
});

t.test('a folder on the way to resolv.conf may be a link', async (t) => {
  const host = new Folder(t, {
    '/run/NetworkManager/resolv.conf': 'nameserver 192.0.2.7\n',
    '/var/run': { link: '/run' },
    '/etc/resolv.conf': { link: '/var/run/NetworkManager/resolv.conf' },
  });
  t.match(host.run('install', '--yes'), { code: 0, err: '' });
  t.equal(readlinkSync(join(host.root, '/etc/holdfast/resolv.conf')), '/run/NetworkManager/resolv.conf');
});

t.test('a unit is told of any path', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  const config = '/srv/a "b" %d\\ $&.yaml';
  const command = ['/opt/no de/node', '/opt/$& 100%/holdfast.js'];
  const text = `version: 1\nforward: { upstreams: ["192.0.2.1:53"] }\n${ZONES}\n`;
  const read = parseConfig(text, config, { stateDir: '/x', runDir: '/x' });
  const { changes } = planInstall({ root: host.root, config: read, program: { ...PROGRAM, command, config } });
  const bytes = (path: string) => {
    const wanted = changes.find((change) => change.path === `/etc/systemd/system/${path}`)?.wanted;
    return wanted?.kind === 'file' ? wanted.bytes.toString() : '';
  };
  t.match(bytes('holdfast.service.d/config.conf'), 'Environment="HOLDFAST_CONFIG=/srv/a \\"b\\" %%d\\\\ $&.yaml"\n');
  t.match(bytes('holdfast.service'), 'ExecStart="/opt/no de/node" "/opt/$$& 100%%/holdfast.js" serve --last-good\n');
});

t.test('units of a package are used, another configuration is told to them', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD, '/lib/systemd/system/holdfast.socket': '[Socket]\n' });
  for (const unit of ['holdfast.service', 'holdfast-prober.service', 'holdfast-register.service'])
    host.put({ [`/lib/systemd/system/${unit}`]: '[Service]\nExecStart=/usr/bin/holdfast\n' });
  const other = join(host.root, 'other.yaml');
  writeFileSync(
    other,
    `version: 1\nlisten: ["0.0.0.0:53", "[::]:53"]\nforward: { upstreams: ["192.0.2.1:53"] }\n${ZONES}\n`,
  );
  t.match(host.run('install', '--yes', '--config', other), { code: 0, err: '' });
  t.same(readdirSync(join(host.root, '/etc/systemd/system')).sort(), [
    'holdfast-prober.service.d',
    'holdfast-register.service.d',
    'holdfast.service.d',
    'holdfast.socket.d',
  ]);
  t.match(host.read('/etc/systemd/system/holdfast.service.d/config.conf'), `Environment=HOLDFAST_CONFIG=${other}`);
  t.match(host.read('/etc/systemd/system/holdfast.socket.d/listen.conf'), /BindIPv6Only=ipv6-only/);
  t.match(host.read('/etc/resolv.conf'), /nameserver 127\.0\.0\.1\nnameserver ::1\n/);
});
