/**
 * Builds the Debian package out of the production tree: what is in `dist`, and the packages that it needs at run time.
 *
 *   node packaging/deb/build.mjs [--out FOLDER]
 *
 * The same tree gives the same bytes. Nothing is downloaded.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const project = resolve(here, '..', '..');
const args = process.argv.slice(2);
const out = resolve(args[0] === '--out' && args[1] ? args[1] : join(project, 'build'));
const manifest = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
const version = manifest.version;
/** Whoever builds it, as Debian's tools are told. */
const { DEBFULLNAME = 'holdfast developers', DEBEMAIL = 'holdfast@localhost' } = process.env;
const maintainer = `${DEBFULLNAME} <${DEBEMAIL}>`;
/** Seconds. All files get it: when a file was copied must not make another package. */
const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? 1_700_000_000);

/** What a program needs of a package to run is its code and its licence. */
const FOLDERS_LEFT_OUT =
  /^(?:test|tests|__tests__|example|examples|benchmark|benchmarks|bench|doc|docs|integration|scripts|bin|bin\.m?js)$/;
const FILES_LEFT_OUT = /\.(?:map|ts|mts|cts|md|markdown|yml|html|sh|flow|tsbuildinfo)$|(?:^|\/)\.[^/]+$/;
/** Sources of a native library whose built form is there too. */
const KOFFI_SOURCES =
  /^node_modules\/koffi\/(?:vendor(?:\/|$)|src\/.*\.(?:cc|hh|inc|def|S|asm|txt)$|.*trampolines\.cjs$|cnoke\.cjs$)/;

function fail(message) {
  process.stderr.write(`package:deb: ${message}\n`);
  process.exit(1);
}

function run(command, ...rest) {
  const { status, stdout, stderr, error } = spawnSync(command, rest, {
    encoding: 'utf8',
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch), LC_ALL: 'C.UTF-8' },
  });
  if (error?.code === 'ENOENT') fail(`${command} is not installed (Debian package dpkg)`);
  if (status !== 0) fail(`${command} ${rest.join(' ')} ended with ${status}: ${stderr}`);
  return stdout.trim();
}

if (!existsSync(join(project, 'dist', 'main.js'))) fail('not built yet: run `npm run build` first');
const architecture = run('dpkg', '--print-architecture');
const tree = mkdtempSync(join(tmpdir(), 'holdfast-deb-'));
process.on('exit', () => rmSync(tree, { recursive: true, force: true }));

const at = (path) => {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  return join(tree, path);
};
const copy = (from, to, leave = () => false) =>
  cpSync(join(project, from), at(to), {
    recursive: true,
    dereference: true,
    filter: (source) => !leave(relative(project, source)),
  });
const text = (path, content, mode = 0o644) => writeFileSync(at(path), content, { mode });
const packed = (path, content) => writeFileSync(at(path), gzipSync(content, { level: 9 }));

const LIB = 'usr/lib/holdfast';
copy('bin', `${LIB}/bin`);
copy('dist', `${LIB}/dist`, (path) => path.endsWith('.map'));
copy('conf/systemd', `${LIB}/conf/systemd`);
// No fields that only an installation from source needs.
const { name, description, license, type, engines } = manifest;
text(`${LIB}/package.json`, `${JSON.stringify({ name, version, description, license, type, engines }, null, 2)}\n`);

const lock = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8'));
const shipped = Object.entries(lock.packages)
  .filter(([path, entry]) => path !== '' && !entry.dev && !entry.devOptional)
  .filter(
    ([path, entry]) =>
      existsSync(join(project, path)) || (entry.optional ? false : fail(`${path} is missing: run npm ci`)),
  );
const nested = (path, source) => source !== path && source.slice(path.length).includes('/node_modules');
for (const [path] of shipped)
  copy(path, `${LIB}/${path}`, (source) => {
    const inside = source.slice(path.length + 1);
    return (
      nested(path, source) || FOLDERS_LEFT_OUT.test(inside) || FILES_LEFT_OUT.test(inside) || KOFFI_SOURCES.test(source)
    );
  });

for (const unit of readdirSync(join(project, 'conf', 'systemd')))
  copy(`conf/systemd/${unit}`, `lib/systemd/system/${unit}`);
copy('conf/holdfast.yaml', 'etc/holdfast/holdfast.yaml');
copy('conf/services.yaml', 'etc/holdfast/services.yaml');
symlinkSync('../lib/holdfast/bin/holdfast', at('usr/bin/holdfast'));
copy('packaging/deb/lintian-overrides', 'usr/share/lintian/overrides/holdfast');
packed('usr/share/man/man8/holdfast.8.gz', readFileSync(join(project, 'docs', 'holdfast.8')));

const DOC = 'usr/share/doc/holdfast';
copy('README.md', `${DOC}/README.md`);
for (const file of readdirSync(join(project, 'docs')))
  if (file.endsWith('.md')) copy(`docs/${file}`, `${DOC}/docs/${file}`);
for (const folder of ['unbound', 'dnsmasq', 'resolved'])
  if (existsSync(join(project, 'conf', folder))) copy(`conf/${folder}`, `${DOC}/examples/${folder}`);
packed(
  `${DOC}/changelog.gz`,
  `holdfast (${version}) unstable; urgency=medium\n\n  * Version ${version}.\n\n -- ${maintainer}  ${new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')}\n`,
);
text(`${DOC}/copyright`, copyrights());

const CONFFILES = ['/etc/holdfast/holdfast.yaml', '/etc/holdfast/services.yaml'];
text('DEBIAN/conffiles', `${CONFFILES.join('\n')}\n`);
for (const script of ['postinst', 'prerm', 'postrm']) copy(`packaging/deb/${script}`, `DEBIAN/${script}`);
chmodSync(tree, 0o755);
const files = walk(tree);
for (const path of files) {
  const stats = lstatSync(path);
  if (stats.isSymbolicLink()) continue;
  const inside = relative(tree, path);
  const program = inside === `${LIB}/bin/holdfast` || /^DEBIAN\/(?:postinst|prerm|postrm)$/.test(inside);
  if (stats.isDirectory() || program) chmodSync(path, 0o755);
  else chmodSync(path, 0o644);
}
const installed = files
  .filter((path) => !relative(tree, path).startsWith('DEBIAN'))
  .reduce((sum, path) => sum + Math.max(1, Math.ceil(lstatSync(path).size / 1024)), 0);
text(
  'DEBIAN/control',
  `${[
    'Package: holdfast',
    `Version: ${version}`,
    `Architecture: ${architecture}`,
    `Maintainer: ${maintainer}`,
    `Installed-Size: ${installed}`,
    `Depends: nodejs (>= ${engines.node.replace('>=', '')}), libc6 (>= 2.28)`,
    'Recommends: libstdc++6',
    'Section: net',
    'Priority: optional',
    'Description: nameserver for service discovery that survives its registry',
    ' holdfast answers SRV, A and AAAA for the services of its zones from memory. It',
    ' reads a registry and probes the endpoints in the background. When the registry',
    ' is away, what it said last stays in force; endpoints that die leave all the',
    ' same.',
    ' .',
    ' It needs Node 20.19 or later, which Debian 12 does not have: take nodejs from',
    ' where your other programs for Node have theirs.',
  ].join('\n')}\n`,
);
// What was left out was not needed: each package loads from what is shipped.
const direct = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }).filter((one) =>
  shipped.some(([path]) => path === `node_modules/${one}`),
);
const loaded = `for (const one of ${JSON.stringify(direct)}) await import(one);`;
const modules = join(tree, LIB, 'loads.mjs');
writeFileSync(modules, loaded);
run(process.execPath, modules);
rmSync(modules);

for (const path of [...walk(tree), tree]) lutimesSync(path, epoch, epoch);

mkdirSync(out, { recursive: true });
const deb = join(out, `holdfast_${version}_${architecture}.deb`);
run('dpkg-deb', '--root-owner-group', '-Zxz', '--build', tree, deb);
process.stdout.write(`${deb}\n`);

function walk(folder) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => join(folder, name));
}

/** Ours, and those of every package that travels along. */
function copyrights() {
  const head = [
    'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/',
    'Upstream-Name: holdfast',
    '',
    'Files: *',
    `Copyright: ${copyrightLine(readFileSync(join(project, 'LICENSE'), 'utf8'))}`,
    'License: MIT',
    paragraph(readFileSync(join(project, 'LICENSE'), 'utf8')),
  ];
  const others = shipped.map(([path, entry]) => {
    const file = readdirSync(join(project, path)).find((name) => /^licen[cs]e/i.test(name));
    const apache = /Apache License\s+Version 2\.0/i;
    const whole = file
      ? readFileSync(join(project, path, file), 'utf8')
      : `${entry.license ?? 'see its package.json'}\n`;
    // Debian has this one on every host.
    const licence = apache.test(whole)
      ? `${copyrightLine(whole)}\n\nThe licence is in /usr/share/common-licenses/Apache-2.0.\n`
      : whole;
    const id = `${(entry.license ?? 'other').replaceAll(/[^A-Za-z0-9.+-]/g, '-')}-${path.replace(/^.*node_modules\//, '').replaceAll(/[^a-z0-9.-]/g, '-')}`;
    return [
      '',
      `Files: ${LIB}/${path}/*`,
      `Copyright: ${copyrightLine(licence)}`,
      `License: ${id}`,
      paragraph(licence),
    ].join('\n');
  });
  return `${[...head, ...others].join('\n')}\n`;
}

function copyrightLine(licence) {
  return /copyright[^\n]*\d{4}[^\n]*/i.exec(licence)?.[0].trim() ?? 'its authors';
}

function paragraph(licence) {
  return licence
    .trim()
    .split('\n')
    .map((line) => (line.trim() === '' ? ' .' : ` ${line.replaceAll('\t', ' ').trimEnd()}`))
    .join('\n');
}
