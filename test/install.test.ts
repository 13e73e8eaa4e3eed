/** Making a host's nameserver, and taking it back, in a folder that stands for the host. */
import { spawnSync } from 'node:child_process';
import fs, {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../src/config/load.js';
import { applyPlan, takeBack, waysBack } from '../src/install/apply.js';
import { isInstalled, readJournal, removeRemains } from '../src/install/journal.js';
import { planInstall } from '../src/install/plan.js';
import { root as project } from './root.js';

t.setTimeout(120_000);

const PROGRAM = {
  command: ['/usr/bin/node', '/opt/holdfast/bin/holdfast.js'],
  units: join(project, 'conf', 'systemd'),
};
const ZONES = 'zones: [{ name: svc.internal, registry: { type: file, path: services.yaml } }]';
const FORWARD = 'forward: { resolvConf: resolv.conf }';
const OLD = 'search corp.example\n nameserver 192.0.2.1\nnameserver 2001:db8::1\noptions edns0\n';

type Files = Record<string, string | { readonly link: string }>;

class Folder {
  readonly root: string;

  constructor(t: Test, files: Files, config = `version: 1\n${FORWARD}\n${ZONES}\n`) {
    this.root = t.testdir({});
    this.put({ '/etc/holdfast/holdfast.yaml': config, ...files });
  }

  put(files: Files): void {
    for (const [path, content] of Object.entries(files)) {
      const full = join(this.root, path);
      mkdirSync(dirname(full), { recursive: true });
      if (path.endsWith('/')) mkdirSync(full, { recursive: true });
      else if (typeof content === 'string') writeFileSync(full, content);
      else symlinkSync(content.link, full);
    }
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), 'utf8');
  }

  /** Every file, link and folder with its mode and content. */
  all(): string[] {
    const names = readdirSync(this.root, { recursive: true, encoding: 'utf8' }).sort();
    return names.map((name) => {
      const full = join(this.root, name);
      const stats = lstatSync(full);
      const mode = (stats.mode & 0o7777).toString(8);
      if (stats.isSymbolicLink()) return `${name} -> ${readlinkSync(full)}`;
      return stats.isDirectory() ? `${name}/ ${mode}` : `${name} ${mode} ${readFileSync(full, 'utf8')}`;
    });
  }

  run(command: 'install' | 'uninstall', ...args: string[]): { code: number | null; out: string; err: string } {
    const launcher = join(project, 'bin', 'holdfast.js');
    const { status, stdout, stderr } = spawnSync(process.execPath, [launcher, command, '--root', this.root, ...args], {
      encoding: 'utf8',
    });
    return { code: status, out: stdout, err: stderr };
  }
}

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

t.test('what would break the host is refused, and nothing is changed', async (t) => {
  const listen = (text: string) => `version: 1\nlisten: [${text}]\n${FORWARD}\n${ZONES}\n`;
  const cases: [string, Files, string, number, RegExp][] = [
    [
      'no forward',
      { '/etc/resolv.conf': OLD },
      `version: 1\n${ZONES}\n`,
      1,
      /has no `forward`.*no systemd-resolved here/,
    ],
    ['a bad configuration', { '/etc/resolv.conf': OLD }, 'version: 1\nzonse: []\n', 2, /unknown key/],
    [
      'the local stub alone',
      { '/etc/resolv.conf': 'nameserver 127.0.0.53\n' },
      listen('"127.0.0.1:53"'),
      1,
      /names no server but this host's own/,
    ],
    [
      'ourselves alone',
      { '/etc/resolv.conf': 'nameserver 127.0.0.1\n' },
      listen('"127.0.0.1:53"'),
      1,
      /names no server but/,
    ],
    [
      'another port',
      { '/etc/resolv.conf': OLD },
      listen('"127.0.0.1:5353"'),
      1,
      /no listen address has port 53 \(127\.0\.0\.1:5353\)/,
    ],
    [
      'upstreams out of the file that is to name us',
      { '/etc/resolv.conf': OLD },
      `version: 1\nforward: { resolvConf: ../resolv.conf }\n${ZONES}\n`,
      1,
      /forward\.resolvConf is \/etc\/resolv\.conf, which is to name this server: write \/etc\/holdfast\/resolv\.conf there/,
    ],
    [
      'a link to the file that is to name us',
      { '/etc/resolv.conf': OLD, '/etc/holdfast/resolv.conf': { link: '../resolv.conf' } },
      listen('"127.0.0.1:53"'),
      1,
      /\/etc\/holdfast\/resolv\.conf leads to \/etc\/resolv\.conf, which is to name this server/,
    ],
    [
      'another address of this host, of which we have all',
      { '/etc/resolv.conf': 'nameserver 127.0.0.2\n' },
      listen('"0.0.0.0:53"'),
      1,
      /names no server but/,
    ],
    [
      'a resolv.conf that is a folder',
      { '/etc/resolv.conf/': '' },
      listen('"127.0.0.1:53"'),
      1,
      /neither a file nor a link/,
    ],
  ];
  for (const [name, files, config, code, message] of cases) {
    t.test(name, async (t) => {
      const host = new Folder(t, files, config);
      const before = host.all();
      for (const args of [[], ['--yes']]) t.match(host.run('install', ...args), { code, err: message });
      t.same(host.all(), before);
    });
  }
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

t.test('interrupted anywhere, it is taken back or finished', async (t) => {
  for (let after = 0; after < 7; after++) {
    const host = new Folder(t, { '/etc/resolv.conf': OLD });
    const { root } = host;
    const before = host.all();
    const file = join(root, '/etc/holdfast/holdfast.yaml');
    const config = parseConfig(host.read('/etc/holdfast/holdfast.yaml'), file, { stateDir: '/x', runDir: '/x' });
    const plan = () => planInstall({ root, config, program: PROGRAM });
    let left = after;
    const tell = (): void => {
      if (left-- <= 0) throw new Error('the power is gone');
    };
    const answers = async () => {};
    const whole = await applyPlan(plan(), { root, answers, tell }).then(
      () => true,
      () => false,
    );
    if (after % 2 === 0 && !whole) await applyPlan(plan(), { root, answers, tell: () => {} });
    const journal = readJournal(root)!;
    let steps = after;
    const stop = (): void => {
      if (steps-- <= 0) throw new Error('the power is gone again');
    };
    try {
      takeBack(root, waysBack(root, journal, config.listen, false), journal, stop);
    } catch {
      // And once more.
    }
    const rest = readJournal(root);
    if (rest) t.ok(takeBack(root, waysBack(root, rest, config.listen, false), rest, () => {}));
    t.same(host.all(), before, `after ${after} steps`);
  }
});

/** Lets so many writes below a folder happen; from then on, as after a kill, none does. Returns whether it came to that. */
async function withWrites(root: string, writes: number, work: () => unknown): Promise<boolean> {
  const names = [
    'mkdirSync',
    'openSync',
    'writeFileSync',
    'renameSync',
    'symlinkSync',
    'rmSync',
    'rmdirSync',
    'chmodSync',
  ] as const;
  const changeable = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
  const real = names.map((name) => [name, changeable[name]!] as const);
  let left = writes;
  for (const [name, call] of real)
    changeable[name] = (...args) => {
      const reads = name === 'openSync' && args[1] === 'r';
      const path = String(name === 'symlinkSync' ? args[1] : args[0]);
      if (path.startsWith(root) && !reads && left-- <= 0) throw new Error('killed');
      return call(...args);
    };
  syncBuiltinESMExports();
  try {
    await work();
  } catch (error) {
    if (left >= 0) throw error;
  } finally {
    for (const [name, call] of real) changeable[name] = call;
    syncBuiltinESMExports();
  }
  return left < 0;
}

t.test('killed at any write, it is taken back or finished, and nothing of it is left', async (t) => {
  const files: Files = {
    '/etc/resolv.conf': OLD,
    '/etc/NetworkManager/conf.d/': '',
    '/etc/dhcp/dhclient-enter-hooks.d/': '',
    '/var/lib/': '',
  };
  const quiet = { answers: async () => {}, tell: () => {} };
  // A kill loses nothing that the kernel has; to wait for a disk some thousand times would take minutes.
  const { fsyncSync } = fs;
  fs.fsyncSync = () => {};
  t.teardown(() => {
    fs.fsyncSync = fsyncSync;
  });
  for (const command of ['install', 'uninstall'] as const) {
    let interrupted = 0;
    for (let writes = 0; ; writes++) {
      const host = new Folder(t, files);
      const { root } = host;
      const before = host.all();
      const file = join(root, '/etc/holdfast/holdfast.yaml');
      const config = parseConfig(host.read('/etc/holdfast/holdfast.yaml'), file, { stateDir: '/x', runDir: '/x' });
      const install = () => applyPlan(planInstall({ root, config, program: PROGRAM }), { root, ...quiet });
      const uninstall = () => {
        const journal = readJournal(root);
        if (isInstalled(journal)) takeBack(root, waysBack(root, journal, config.listen, false), journal, () => {});
        else removeRemains(root);
      };
      if (command === 'uninstall') await install();
      if (!(await withWrites(root, writes, command === 'install' ? install : uninstall))) break;
      interrupted++;
      if (writes % 2 === 1) {
        await install();
        t.match(
          host.read('/etc/resolv.conf'),
          /^nameserver 127\.0\.0\.1$/m,
          `finished after ${writes} writes of ${command}`,
        );
      }
      uninstall();
      t.same(host.all(), before, `${writes} writes of ${command}`);
    }
    t.ok(interrupted > 20, `${interrupted} places in ${command}`);
  }
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

const root = process.getuid?.() === 0;

t.test('a resolv.conf that something is mounted on is written where it is', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD, '/mounted': OLD });
  const mounted = (command: string) => {
    const launcher = join(project, 'bin', 'holdfast.js');
    const script = `mount --bind "$0/mounted" "$0/etc/resolv.conf" && exec "$1" "$2" ${command} --yes --root "$0"`;
    return spawnSync('unshare', ['-m', 'sh', '-c', script, host.root, process.execPath, launcher], {
      encoding: 'utf8',
    });
  };
  const installed = mounted('install');
  if (installed.status !== 0 && !installed.stderr.startsWith('holdfast')) {
    t.pass('mounted', { skip: `nothing can be mounted here: ${installed.stderr.trim()}` });
    return;
  }
  t.equal(installed.status, 0, installed.stderr);
  t.match(host.read('/mounted'), /nameserver 127\.0\.0\.1\n/);
  t.equal(host.read('/etc/resolv.conf'), OLD, 'the file below is not touched');
  t.equal(mounted('uninstall').status, 0);
  t.equal(host.read('/mounted'), OLD);
});

t.test('an immutable resolv.conf is an error that says what to do, and the way back is open', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  const before = host.all();
  const file = join(host.root, '/etc/resolv.conf');
  if (!root || spawnSync('chattr', ['+i', file]).status !== 0) {
    t.pass('immutable', { skip: 'nothing can be made immutable here' });
    return;
  }
  const { code, err } = host.run('install', '--yes');
  spawnSync('chattr', ['-i', file]);
  t.equal(code, 1);
  t.match(err, /resolv\.conf cannot be changed, not even by root: it may be immutable \(lsattr .*; chattr -i /);
  t.match(err, /is taken back by `holdfast uninstall --yes`/);
  t.match(host.run('uninstall', '--yes'), { code: 0 });
  t.same(host.all(), before);
});

t.test('without leave to write it says so', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  if (root) {
    t.pass('denied', { skip: 'root may write everywhere' });
    return;
  }
  chmodSync(join(host.root, 'etc'), 0o555);
  const refused = host.run('install', '--yes');
  chmodSync(join(host.root, 'etc'), 0o755);
  t.match(refused, { code: 1, err: /permission denied; run this as root/ });
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

t.test('the notes of what was there are damaged: nothing is guessed', async (t) => {
  const host = new Folder(t, { '/etc/resolv.conf': OLD });
  host.run('install', '--yes');
  const path = join(host.root, '/var/lib/holdfast-install/journal.json');
  for (const text of ['', '{}', '[]', '{"version":9}']) {
    writeFileSync(path, text);
    for (const command of ['install', 'uninstall'] as const)
      t.match(host.run(command, '--yes'), {
        code: 1,
        err: /journal\.json tells what was there before, and cannot be read/,
      });
  }
});
