/** The Debian package on a host with systemd: installed, used, upgraded, removed and purged. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../root.js';

t.setTimeout(280_000);

const STORY = join(root, 'test', 'integration', 'systemd');

function run(command: string, ...args: string[]) {
  return spawnSync(command, args, { encoding: 'utf8', cwd: root, timeout: 240_000 });
}

const noDpkg = run('dpkg-deb', '--version').error ? 'no dpkg-deb here' : false;
if (noDpkg) console.error(`skipped: the package (${noDpkg})`);

const build = (out: string) => run(process.execPath, 'packaging/deb/build.mjs', '--out', out);
const ours = mkdtempSync(join(tmpdir(), 'holdfast-host-'));
t.teardown(() => rmSync(ours, { recursive: true, force: true }));
const built = build(ours);

/** Whether a host of its own can be made here. */
function whyNoHost(): string | false {
  if (noDpkg) return noDpkg;
  if (process.getuid?.() !== 0) return 'not root';
  if (!existsSync('/lib/systemd/systemd')) return 'no systemd here';
  if (process.execPath.startsWith('/tmp') || process.execPath.startsWith('/run'))
    return 'node is in a folder that it hides';
  const overlay =
    'd=$(mktemp -d) && mount -t tmpfs tmpfs $d && mkdir $d/u $d/w $d/r && mount -t overlay overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/r && mkdir -p $d/c && mount -t cgroup -o none,name=systemd cgroup $d/c';
  return run('unshare', '-m', '-p', '-f', '-u', '-i', '-n', 'sh', '-c', overlay).status === 0
    ? false
    : 'no namespaces, overlay or control groups to be had';
}

t.test('the package is the same each time, and lintian finds no error', { skip: noDpkg }, async (t) => {
  const folder = t.testdir({});
  const made = [built, build(folder)].map(({ status, stdout, stderr }) => {
    t.equal(status, 0, stderr);
    return stdout.trim();
  });
  t.ok(readFileSync(made[0]!).equals(readFileSync(made[1]!)), 'byte for byte');
  const fields = run('dpkg-deb', '-f', made[0]!, 'Depends').stdout;
  t.match(fields, /^nodejs \(>= 20\.19\), /);
  const lintian = run('lintian', '--fail-on', 'error', made[0]!);
  if (lintian.error) console.error('skipped: what lintian says (no lintian here)');
  else t.equal(lintian.status, 0, lintian.stdout);
});

const noHost = whyNoHost();
if (noHost) console.error(`skipped: the package on a host with systemd (${noHost})`);

t.test('on a host with systemd', { skip: noHost }, async (t) => {
  const folder = ours;
  const force = run('dpkg-query', '-W', 'nodejs').status === 0 ? '' : '--force-depends';
  const story = readFileSync(join(STORY, 'story.sh'), 'utf8');
  writeFileSync(join(folder, 'story.sh'), `FORCE='${force}'\nSOURCE='${root}'\n${story}`);
  copyFileSync(join(STORY, 'boot.sh'), join(folder, 'boot.sh'));
  const booted = run(
    'timeout',
    '-s',
    'KILL',
    '200',
    'unshare',
    '-m',
    '-p',
    '-f',
    '-u',
    '-i',
    '-n',
    'bash',
    join(folder, 'boot.sh'),
    folder,
  );
  const said = existsSync(join(folder, 'said.txt')) ? readFileSync(join(folder, 'said.txt'), 'utf8') : '';
  const seen = Object.fromEntries(said.split('\n').map((line) => line.split('\t')));
  const expected = {
    installed: '0',
    'units-after-install': 'inactive inactive inactive',
    version: 'yes',
    'refused-without-forward': '1',
    'dry-run': 'nameserver 127.0.0.9',
    install: '0',
    units: 'active active active',
    'resolv.conf': 'nameserver 127.0.0.1',
    upstreams: 'nameserver 127.0.0.9',
    libc: '127.0.0.1',
    'dynamic-user': 'yes',
    'prober-dynamic-user': 'yes',
    transport: '"transport":"batched"',
    prober: '"state":"ok"',
    sockets: '2',
    'status-line': '1',
    refused: '0',
    'foreign-user': '1',
    'at-nss-lookup': '0',
    'through-a-crash': '127.0.0.1',
    'another-process': 'yes',
    alive: 'yes',
    'hung-one-replaced': 'yes',
    'after-it': '127.0.0.1',
    reload: '0',
    journal: '"PRIORITY":"6"',
    registrar: 'active',
    registered: '127.0.0.1',
    'registrar-dynamic-user': 'yes',
    'registered-still': '127.0.0.1',
    unregistered: '',
    upgraded: '0',
    'units-after-upgrade': 'active active active',
    'conf-kept': '1',
    'resolv.conf-kept': 'nameserver 127.0.0.1',
    removed: '0',
    'units-after-removal': 'inactive inactive inactive',
    'same-resolv.conf': 'yes',
    'left-in-etc': 'holdfast.yaml',
    'left-of-systemd': '',
    purged: '0',
    left: '',
  };
  for (const [name, value] of Object.entries(expected)) t.equal(seen[name], value, name);
  if (t.passing()) return;
  const errors = join(folder, 'errors.txt');
  console.error(`${booted.stderr}\n${existsSync(errors) ? readFileSync(errors, 'utf8') : ''}\n${said}`);
});
