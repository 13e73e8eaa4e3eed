import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { PROBE_TYPES, type ProbeType, type Target } from '../src/prober/feed.js';
import { MAX_RUNNING } from '../src/prober/probes/exec.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { freePort } from './ports.js';
import { until } from './prober-fixture.js';
import { listeningHere, probe, udpServer } from './probes-fixture.js';

t.test('DNS and UDP: a reply that is expected', async (t) => {
  const answer = (query: Buffer, rcode: number) => {
    const reply = Buffer.from(query);
    reply[2]! |= 0x80;
    reply[3] = rcode;
    return reply;
  };
  const dns = (over: Partial<Target> & Pick<Target, 'port'>) => probe({ type: 'dns', query: 'svc.test', ...over });
  t.equal(await dns({ port: await udpServer((query) => answer(query, 0)), protocol: 'udp' }), 'pass');
  t.equal(await dns({ port: await udpServer((query) => answer(query, 5)), protocol: 'udp' }), 'bad-status: REFUSED');
  const stray = await udpServer(() => Buffer.alloc(20));
  t.match(await dns({ port: stray, protocol: 'udp', timeout: 100 }), /^timeout: /, 'a reply to no question of ours');
  const tcp = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      const reply = answer(chunk.subarray(2), 3);
      socket.write(Buffer.from([0, reply.length]));
      setImmediate(() => socket.write(reply));
    });
  });
  t.equal(await dns({ port: await listeningHere(tcp) }), 'bad-status: NXDOMAIN');

  const echo = await udpServer((query) => (query.equals(Buffer.from([0xff, 1])) ? Buffer.from([0xfe, 2]) : undefined));
  t.equal(await probe({ type: 'udp', port: echo, send: '\xff\x01' }), 'pass');
  t.equal(await probe({ type: 'udp', port: echo, send: '\xff\x01', expect: '\xfe' }), 'pass');
  t.equal(
    await probe({ type: 'udp', port: echo, send: '\xff\x01', expect: 'pong' }),
    'bad-status: another reply than expected',
  );
  t.match(await probe({ type: 'udp', port: echo, send: 'x', timeout: 50 }), /^timeout: /);
  t.equal(await probe({ type: 'udp', port: await freePort(), send: 'x' }), 'refused: ECONNREFUSED');
});

t.test('A10: DNS and UDP: what cannot be sent is a local error, and ends no program', async (t) => {
  // A link-local address without its link leads nowhere on any host.
  for (const more of [
    { type: 'udp', send: 'x' },
    { type: 'dns', query: 'a.test' },
  ] as const)
    t.match(await probe({ port: 9, protocol: 'udp', address: 'fe80::1', timeout: 300, ...more }), /^local: EINVAL/);
  const here = await udpServer((query) => query);
  t.match(await probe({ type: 'udp', port: here, send: 'x'.repeat(70_000), timeout: 300 }), /^local: EMSGSIZE/);
});

t.test('DNS and UDP: a question that is lost is asked again, while there is time', async (t) => {
  const lossy = async (lost: number, over: Partial<Target>) => {
    const asked: string[] = [];
    const port = await udpServer((query) => {
      asked.push(query.toString('latin1'));
      query[2]! |= 0x80;
      return asked.length > lost ? query : undefined;
    });
    const outcome = await probe({ type: 'udp', port, protocol: 'udp', timeout: 2_000, ...over });
    return { outcome, asked: asked.length, same: new Set(asked).size === 1 };
  };
  const dns = { type: 'dns', query: 'svc.test' } as const;
  for (const [over, lost] of [
    [dns, 1],
    [{ send: 'who' }, 1],
  ] as const)
    t.same(await lossy(lost, over), { outcome: 'pass', asked: lost + 1, same: true });
  t.match(await lossy(9, dns), { outcome: /^timeout: /, asked: 2, same: true });
});

/** Of all processes of this host. */
function commandLines(): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, 'utf8')] : [];
    } catch {
      return [];
    }
  });
}

t.test('exec: the status of a program, at most so many at once', async (t) => {
  const exec = (script: string, over: Partial<Target> = {}) =>
    probe({ type: 'exec', port: 8080, command: ['/bin/sh', '-c', script], ...over });
  t.equal(await exec('test "$HOLDFAST_ADDRESS:$HOLDFAST_PORT" = 127.0.0.1:8080'), 'pass');
  t.equal(await exec('echo no database >&2; exit 3'), 'bad-status: exit 3: no database');
  t.equal(await exec('kill -TERM $$'), 'bad-status: SIGTERM');
  t.match(await exec('sleep 60', { timeout: 50 }), /^timeout: /);
  t.match(await probe({ type: 'exec', port: 1, command: ['/nonexistent/program'] }), /^local: .*ENOENT/);
  t.match(await probe({ type: 'exec', port: 1 }), /^local: /);
  t.equal(await exec('sleep 3971 & exit 0'), 'pass', 'what it leaves running is not waited for');
  t.equal(await exec('setsid sleep 1 & echo late >&2; exit 4'), 'bad-status: exit 4: late', 'nor what escapes');
  t.match(await exec('sleep 3971 & sleep 3971', { timeout: 50 }), /^timeout: /);
  t.match(await exec('yes >&2', { timeout: 50 }), /^timeout: /);
  await until(() => !commandLines().includes('sleep\x003971\0'));
  const many = await Promise.all(Array.from({ length: 3 * MAX_RUNNING }, () => exec('exit 0')));
  t.same(
    many.filter((outcome) => outcome !== 'pass'),
    [],
    'the others wait for their turn',
  );
  const done: string[] = [];
  const of = (group: string) => exec('sleep 0.05', { group }).then(() => done.push(group));
  await Promise.all([...Array.from({ length: 10 * MAX_RUNNING }, () => of('crowd')), of('few'), of('few')]);
  t.ok(done.lastIndexOf('few') < 5 * MAX_RUNNING, 'R31: the turns of a zone do not wait for all of another’s');
});

const NO_NAMESPACES =
  spawnSync('unshare', ['-p', '-f', '-m', 'true']).status !== 0 && 'a PID namespace is not permitted here';

t.test('exec in the first process of a container leaves no dead ones', { skip: NO_NAMESPACES }, async (t) => {
  const script = fileURLToPath(new URL('./probes-first-process.js', import.meta.url));
  const first = ['--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, script];
  const { stdout, stderr } = spawnSync('unshare', first, { encoding: 'utf8', timeout: 20_000 });
  t.same([stdout, stderr], ['as 1: pass pass pass failure\nnobody is left\n', '']);
});

t.test('A25: every kind reaches an IPv6 address, without brackets and with them where a URL has one', async (t) => {
  const here = '::1';
  const hosts: unknown[] = [];
  const web: RequestListener = (request, response) => {
    hosts.push(request.headers.host);
    response.end('ok');
  };
  const serving = createHttp2Server();
  serving.on('stream', (stream) => {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]));
  });
  const tcp = createServer((socket) => void socket.on('error', () => {}));
  const port: Record<string, number> = {};
  try {
    port.tcp = await listeningHere(tcp, here);
  } catch {
    t.comment('no IPv6 here');
    return;
  }
  port.http = await listeningHere(createHttpServer(web), here);
  port.https = await listeningHere(createHttpsServer({ key: KEY, cert: CERT }, web), here);
  port.tls = port.https;
  port.grpc = await listeningHere(serving as unknown as Server, here);
  port.udp = await udpServer((query) => query, here);
  port.dns = await udpServer((query) => Buffer.from(query).fill(0x84, 2, 3), here);
  port.exec = 7;
  const more: Partial<Record<ProbeType, Partial<Target>>> = {
    udp: { send: 'x', expect: 'x' },
    dns: { query: 'a.test', protocol: 'udp' },
    exec: { command: ['/bin/sh', '-c', 'test "$HOLDFAST_ADDRESS" = ::1'] },
  };
  for (const type of PROBE_TYPES)
    t.equal(await probe({ address: here, type, port: port[type]!, ...more[type] }), 'pass', type);
  t.same(hosts, [`[::1]:${port.http}`, `[::1]:${port.https}`]);
  const source = { address: here, type: 'tcp', port: port.tcp } as const;
  t.equal(await probe({ ...source, source: '::1' }), 'pass');
  t.match(await probe({ ...source, source: '2001:db8::1' }), /^local: EADDRNOTAVAIL/);
});
