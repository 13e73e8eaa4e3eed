/** Peers that answer without an end, and a host without descriptors: no probe takes the time of the others for it. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { PROBE_TYPES, type Target } from '../src/prober/feed.js';
import { listeningHere, probe, udpServer } from './probes-fixture.js';

/** No test waits for it: what ends a probe is what the peer says. */
const FOR_EVER = 100_000;

/** A server that says `first`, and then `more` as long as it is read. */
function endless(more: Buffer | string, first: Buffer | string = ''): Promise<number> {
  return listeningHere(
    createServer((socket: Socket) => {
      const go = (): void => {
        while (!socket.destroyed && socket.write(more));
      };
      socket.on('error', () => {});
      socket.on('drain', go);
      socket.write(first);
      go();
    }),
  );
}

/** RFC 9113 s.4.1. */
function frame(type: number, flags: number, stream: number, payload: readonly number[] = []): Buffer {
  return Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
}

t.test('what is said without an end is a failure at once', async (t) => {
  const said = (type: Target['type'], port: number) => probe({ type, port, timeout: FOR_EVER });
  const tooMuch = 'bad-status: says more than any answer';
  await t.test('HTTP: empty lines', async (t) =>
    t.equal(await said('http', await endless('\r\n'.repeat(2_000))), tooMuch),
  );
  const settings = frame(4, 0, 0);
  const kinds = {
    unknown: frame(77, 0, 0),
    PRIORITY: frame(2, 0, 1, [0, 0, 0, 0, 1]),
    WINDOW_UPDATE: frame(8, 0, 0, [0, 0, 0, 1]),
  };
  for (const [kind, one] of Object.entries(kinds)) {
    const port = await endless(Buffer.concat(Array.from({ length: 1_000 }, () => one)), settings);
    await t.test(`gRPC: frames, ${kind}`, async (t) => t.equal(await said('grpc', port), tooMuch));
  }
});

t.test('HTTP: a body in very many pieces is taken as it is by then', async (t) => {
  const body = await endless('1\r\na\r\n'.repeat(9_000), 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
  const pieces: number[] = [];
  const concat = Buffer.concat.bind(Buffer);
  t.teardown(() => (Buffer.concat = concat));
  Buffer.concat = (list, length) => {
    pieces.push(list.length);
    return concat(list, length);
  };
  t.equal(await probe({ type: 'http', port: body, timeout: FOR_EVER }), 'pass');
  t.ok(Math.max(...pieces) <= 8_192, `${pieces}`);
});

t.test('DNS: replies to no question', async (t) => {
  const answered = (strays: number) =>
    udpServer((query, send) => {
      for (let i = 0; i < strays; i++) send(Buffer.alloc(20));
      return Buffer.from(query).fill(0x80, 2, 3);
    });
  const dns = async (strays: number) =>
    probe({ type: 'dns', query: 'a.test', protocol: 'udp', port: await answered(strays), timeout: FOR_EVER });
  t.equal(await dns(5), 'pass', 'some are passed over');
  t.equal(await dns(100), 'bad-status: replies to no question, without an end');
});

t.test('exec: a program that writes without an end is read with pauses, and its last words all the same', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hf-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const written = join(folder, 'written');
  const exec = (script: string, timeout: number) =>
    probe({ type: 'exec', port: 1, timeout, command: ['/bin/sh', '-c', script] });
  // It counts what was taken of it.
  const flood = `i=0; while :; do head -c 1000000 /dev/zero >&2; i=$((i+1)); echo $i > ${written}; done`;
  t.match(await exec(flood, 3_000), /^timeout: /);
  const taken = Number(readFileSync(written, 'utf8'));
  t.ok(taken >= 1 && taken <= 40, `${taken} MB in three seconds`);
  t.equal(await exec('head -c 1000000 /dev/zero >&2; exit 0', FOR_EVER), 'pass', 'one that only says much');
  t.equal(
    await exec('echo no; head -c 1000000 /dev/zero >&2; exit 3', FOR_EVER).then((out) => out.slice(0, 18)),
    'bad-status: exit 3',
  );
});

t.test('A9: without descriptors every kind of probe is a local error, and ends no program', async (t) => {
  const script = fileURLToPath(new URL('./probes-without-descriptors.js', import.meta.url));
  const { stdout, stderr } = spawnSync('/bin/sh', ['-c', 'ulimit -n 60; exec "$0" "$@"', process.execPath, script], {
    encoding: 'utf8',
  });
  t.equal(stderr, '');
  const outcomes = Object.fromEntries(stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split(' = ')])));
  for (const type of PROBE_TYPES) t.match(outcomes[type], /^local: EMFILE/, type);
  t.equal(outcomes.after, 'pass', 'it goes on when there are some');
});
