/** Making a host's nameserver where something is in the way, or ends it half-way. */
import { spawnSync } from 'node:child_process';
import fs, { chmodSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../src/config/load.js';
import { applyPlan, takeBack, waysBack } from '../src/install/apply.js';
import { isInstalled, readJournal, removeRemains } from '../src/install/journal.js';
import { planInstall } from '../src/install/plan.js';
import { type Files, FORWARD, Folder, OLD, PROGRAM, root, ZONES } from './install-fixture.js';
import { root as project } from './root.js';

t.setTimeout(120_000);

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
