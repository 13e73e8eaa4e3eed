import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import { MAX_RUNNING } from '../src/prober/probes/exec.js';
import { HERE } from './prober-fixture.js';
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
  const closed = createSocket('udp4').bind(0, HERE);
  await once(closed, 'listening');
  const { port } = closed.address();
  await new Promise<void>((resolve) => closed.close(resolve));
  t.equal(await probe({ type: 'udp', port, send: 'x' }), 'refused: ECONNREFUSED');
});

t.test('exec: the status of a program, at most so many at once', async (t) => {
  const exec = (script: string, over: Partial<Target> = {}) =>
    probe({ type: 'exec', port: 8080, command: ['/bin/sh', '-c', script], ...over });
  t.equal(await exec('test "$HOLDFAST_ADDRESS:$HOLDFAST_PORT" = 127.0.0.1:8080'), 'pass');
  t.equal(await exec('echo no database >&2; exit 3'), 'bad-status: exit 3: no database');
  t.equal(await exec('kill -TERM $$'), 'bad-status: SIGTERM');
  t.match(await exec('sleep 60', { timeout: 50 }), /^timeout: /);
  t.match(await probe({ type: 'exec', port: 1, command: ['/nonexistent/program'] }), /^local: .*ENOENT/);
  t.match(await probe({ type: 'exec', port: 1 }), /^local: /);
  const many = await Promise.all(Array.from({ length: 3 * MAX_RUNNING }, () => exec('exit 0')));
  t.same(
    many.filter((outcome) => outcome !== 'pass'),
    [],
    'the others wait for their turn',
  );
});
