/**
 * systemd-resolved itself. It is run from where it is installed, or from where its package was only unpacked: installing
 * it would take the resolv.conf of this host over.
 */
import { spawnSync } from 'node:child_process';
import { appendFileSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../blackbox/program.js';
import { encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { askUdp } from '../server-fixture.js';
import { type Address, runServer, shipped, standsBehind } from './front.js';

const CACHE = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
const PROGRAMS = [
  '/lib/systemd/systemd-resolved',
  join(CACHE, 'holdfast/systemd-resolved/lib/systemd/systemd-resolved'),
];
const STUB: Address = { address: '127.0.0.53', port: 53 };
const USER = 985;

t.setTimeout(110_000);

function must(command: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
}

/** What it wants of a host: a link with an address, its user, folders that may be written. */
function prepareHost(): void {
  must('ip', 'link', 'add', 'hf0', 'type', 'veth', 'peer', 'name', 'hf1');
  must('ip', 'addr', 'add', '10.254.0.1/24', 'dev', 'hf0');
  for (const link of ['hf0', 'hf1']) must('ip', 'link', 'set', link, 'up');
  mkdirSync('/run/systemd', { recursive: true });
  must('mount', '-t', 'tmpfs', 'none', '/run/systemd');
  const [upper, work] = ['/run/systemd/upper', '/run/systemd/work'];
  mkdirSync(upper);
  mkdirSync(work);
  must('mount', '-t', 'overlay', 'overlay', '-o', `lowerdir=/etc,upperdir=${upper},workdir=${work}`, '/etc');
  if (!/^systemd-resolve:/m.test(readFileSync('/etc/passwd', 'utf8'))) {
    appendFileSync('/etc/passwd', `systemd-resolve:x:${USER}:${USER}::/:/usr/sbin/nologin\n`);
    appendFileSync('/etc/group', `systemd-resolve:x:${USER}:\n`);
  }
  mkdirSync('/run/systemd/resolve');
  const [, , uid, gid] = /^systemd-resolve:.*$/m.exec(readFileSync('/etc/passwd', 'utf8'))![0].split(':');
  chownSync('/run/systemd/resolve', Number(uid), Number(gid));
}

export async function behindResolved(reason: string | undefined): Promise<void> {
  const program = PROGRAMS.find((path) => existsSync(path));
  const missing = reason ?? (program === undefined ? 'no systemd-resolved here' : false);
  if (missing) console.error(`skipped: holdfast behind systemd-resolved (${missing})`);
  let said = '';
  const start = async (t: Test, _folder: string, holdfast: number): Promise<Address> => {
    prepareHost();
    mkdirSync('/etc/systemd/resolved.conf.d', { recursive: true });
    writeFileSync('/etc/systemd/resolved.conf.d/holdfast.conf', shipped('resolved/holdfast.conf', holdfast));
    mkdirSync('/etc/dnssec-trust-anchors.d', { recursive: true });
    writeFileSync('/etc/dnssec-trust-anchors.d/holdfast.negative', shipped('resolved/holdfast.negative', holdfast));
    const child = runServer(t, program!, [], { SYSTEMD_LOG_TARGET: 'console', SYSTEMD_LOG_LEVEL: 'info' });
    child.stderr!.on('data', (chunk) => (said += chunk));
    return STUB;
  };
  await t.test('behind systemd-resolved', { skip: missing }, async (t) => {
    await standsBehind(t, { name: 'resolved', start });
    t.notMatch(said, /degraded/i, 'EDNS is there in every state (D11)');

    // It says network-down of its own accord, whoever would answer: docs/host.md tells of it.
    for (const link of ['hf0', 'hf1']) must('ip', 'link', 'set', link, 'down');
    const query = Buffer.from(encodeQuery(1, parseQuestion('orders SRV', 'svc.test')));
    query[2]! |= 1;
    await until('no network, no answer', async () => (await askUdp(STUB, query, 2_500))?.rcode === 2);
    for (const link of ['hf0', 'hf1']) must('ip', 'link', 'set', link, 'up');
    await until('a network again', async () => (await askUdp(STUB, query, 2_500))?.rcode === 0);
  });
}
