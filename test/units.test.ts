/** The units of systemd that come with the program. */
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { root } from './root.js';

const UNITS = join(root, 'conf', 'systemd');
const names = readdirSync(UNITS).sort();
const services = names.filter((name) => name.endsWith('.service'));
/** Ten times the exposure that systemd-analyze may see at most. */
const THRESHOLD = '25';

const missing =
  spawnSync('systemd-analyze', ['--version']).status === 0 ? false : 'no systemd-analyze here (Debian: systemd)';
if (missing) console.error(`skipped: the units are not checked (${missing})`);

const analyze = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  return { status, said: `${stdout}${stderr}` };
};

/** A folder with the units, and the programs that they start. */
function host(t: Test): { readonly root: string; readonly units: string } {
  const folder = t.testdir({});
  for (const program of ['usr/bin/holdfast', 'bin/kill']) {
    mkdirSync(join(folder, program, '..'), { recursive: true });
    writeFileSync(join(folder, program), '#!/bin/sh\n');
    chmodSync(join(folder, program), 0o755);
  }
  const units = join(folder, 'etc/systemd/system');
  mkdirSync(units, { recursive: true });
  cpSync(UNITS, units, { recursive: true });
  for (const target of ['nss-lookup', 'multi-user', 'sockets', 'basic', 'sysinit', 'shutdown'])
    writeFileSync(join(units, `${target}.target`), '[Unit]\nDescription=target\n');
  return { root: folder, units };
}

t.test('are clean', { skip: missing }, async (t) => {
  const { root: folder, units } = host(t);
  t.ok(services.length >= 2);
  for (const name of names) {
    const { status, said } = analyze('verify', `--root=${folder}`, '--man=no', join(units, name));
    t.same([status, said], [0, ''], name);
  }
  writeFileSync(
    join(units, names[0]!),
    readFileSync(join(UNITS, names[0]!), 'utf8').replace('WatchdogSec', 'WatchDog'),
  );
  const { said } = analyze('verify', `--root=${folder}`, '--man=no', join(units, names[0]!));
  t.match(said, /Unknown key.* 'WatchDog'/, 'a slip would be seen');
});

t.test('give the programs little', { skip: missing }, async (t) => {
  for (const name of services) {
    const { status, said } = analyze(
      'security',
      '--offline=true',
      `--threshold=${THRESHOLD}`,
      '--no-pager',
      join(UNITS, name),
    );
    t.equal(status, 0, `${name}: ${said.trim().split('\n').at(-1)}`);
  }
  const bare = join(t.testdir({ 'bare.service': '[Service]\nExecStart=/bin/true\n' }), 'bare.service');
  t.not(
    analyze('security', '--offline=true', `--threshold=${THRESHOLD}`, '--no-pager', bare).status,
    0,
    'a bare unit would be seen',
  );
});

t.test('say what the host may rely on', async (t) => {
  const text = (name: string) => readFileSync(join(UNITS, name), 'utf8');
  const resolver = text('holdfast.service');
  t.match(resolver, /^ExecStart=\S+ serve --last-good$/m);
  t.match(resolver, /^Type=notify$/m);
  t.match(resolver, /^Before=nss-lookup\.target$/m);
  t.match(resolver, /^Wants=nss-lookup\.target /m);
  t.match(resolver, /^AmbientCapabilities=CAP_NET_BIND_SERVICE$/m);
  for (const name of services) {
    t.notMatch(text(name), /network-online|MemoryDenyWriteExecute=(?:yes|true|on)/, name);
    t.match(text(name), /^WatchdogSec=\d+s$/m, name);
    t.match(text(name), /^DynamicUser=yes$/m, name);
    t.match(text(name), /^User=holdfast$/m, `${name} has the user of the others`);
  }
});
