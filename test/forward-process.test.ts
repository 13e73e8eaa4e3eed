/** Where the servers to ask come from: resolv.conf, domains, the servers of a registry. */
import { spawnSync } from 'node:child_process';
import { unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../src/config/load.js';
import { RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { readResolvConf } from '../src/forward/resolv-conf.js';
import { ForwardLink } from '../src/resolver/forward-link.js';
import { BootClock } from '../src/system/boot-clock.js';
import { decode, type Reply } from './answers-fixture.js';
import { a, Client, nobody, upstream } from './forward-fixture.js';
import { question } from './server-fixture.js';

t.test('resolv.conf: servers in order, without local stubs and what is no address', async (t) => {
  const text =
    '# made by hand\nsearch a.example\nnameserver 127.0.0.53\n nameserver\t192.0.2.1 # first\nnameserver 2001:DB8::1\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\nnameserver x\noptions rotate\n';
  t.same(readResolvConf(text), [
    { address: '192.0.2.1', port: 53 },
    { address: '2001:db8::1', port: 53 },
    { address: 'fe80::1%eth0', port: 53 },
  ]);
});

t.test('the process: servers out of resolv.conf while it changes, domains, status and what is wrong', async (t) => {
  const folder = t.testdir({ 'resolv.conf': 'nameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver 127.0.0.1\n' });
  const file = join(folder, 'resolv.conf');
  const refusing = await nobody();
  const text = (forward: string) =>
    `version: 1\nlisten: ["127.0.0.1:53"]\nzones: [{ name: svc.internal, registry: { type: file, path: s.yaml } }]\n${forward}`;
  const config = (forward: string) =>
    parseConfig(text(forward), join(folder, 'h.yaml'), { stateDir: '/x', runDir: '/x' });
  const server = `127.0.0.1:${refusing.port}`;
  const lines: string[] = [];
  const log = (_: string, event: string) => lines.push(event);
  const first = config(`forward: { resolvConf: resolv.conf, domains: { corp.example: ["${server}"] } }`);
  const link = new ForwardLink(first, log, new BootClock(), { forget: () => {}, keep: () => {} });
  t.teardown(() => link.stop());
  const shown = () => link.status()?.upstreams.map((u) => `${u.address} ${u.domain ?? '.'} ${u.state}`);
  t.same(shown(), ['192.0.2.1:53 . up', `${server} corp.example up`], 'neither the local stub nor ourselves');
  await link.look();
  t.same(lines, []);
  writeFileSync(file, 'nameserver 192.0.2.2\n');
  await link.look();
  t.same(shown(), ['192.0.2.2:53 . up', `${server} corp.example up`]);
  t.same(lines, ['forward-upstreams']);
  for (const bad of ['', 'nameserver 127.0.0.1\n']) {
    writeFileSync(file, bad);
    await link.look();
    t.match(link.problems(), [/^forwarding: .*resolv\.conf names no server but this host's own$/]);
    t.equal(shown()?.[0], '192.0.2.2:53 . up', 'those known stay');
  }
  unlinkSync(file);
  await link.look();
  t.match(link.problems(), [/resolv\.conf cannot be read: ENOENT/]);
  spawnSync('mkfifo', [file]);
  for (const again of [() => link.look(), async () => link.reload(first)]) {
    await again();
    t.match(link.problems(), [/resolv\.conf cannot be read: it is a named pipe, expected a regular file/]);
    t.equal(shown()?.[0], '192.0.2.2:53 . up', 'nobody waits for a writer');
  }

  const answer = link.settings!.answer;
  const reply = await new Promise<Uint8Array | undefined>((resolve) => {
    const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
    answer({ query: question('x.corp.example', 'A'), transport: 'udp', peer, listen: 0 }, resolve);
  });
  t.equal(decode(reply!).rcode, RCODE.SERVFAIL);
  t.match(link.status(), {
    upstreams: [{}, { state: 'down', queries: 1, failures: 1, lastError: 'nobody listens there' }],
    counts: { queries: 1, failures: 1 },
  });
  await link.look();
  t.same(lines, ['forward-upstreams', 'forward-failing']);
  t.ok(link.problems().includes('forwarding: no upstream answers; names in corp.example come from the cache or fail'));
  link.reload(config(`forward: { upstreams: ["${server}"] }`));
  t.same([shown(), link.problems()], [[`${server} . up`], []]);
  t.equal(link.settings?.answer, answer, 'threads need not be told of another one');
  link.reload(config(''));
  t.same([link.settings, link.status(), link.problems()], [undefined, undefined, []]);
});

t.test("names of a zone that its registry's own server is asked for", async (t) => {
  const agent = await upstream(t, () => ({ answers: [a('192.0.2.9', 0)] }));
  const other = await upstream(t, () => ({ answers: [a('192.0.2.1', 100)] }));
  const agents = [{ domain: 'svc.internal', upstreams: [agent.at], listen: [1] }];
  const client = new Client(t, [other.at], { agents, recurses: () => false });
  const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
  const ask = (listen: number, more: QueryOptions = { name: 'geo.query.svc.internal', type: TYPE.A, edns: {} }) =>
    new Promise<{ reply: Reply; kept: boolean }>((resolve) => {
      client.forwarder.answer({ query: encodeQuery(more)!, transport: 'udp', peer, listen }, (message, keep) =>
        resolve({ reply: decode(message!), kept: keep !== undefined }),
      );
    });
  const { reply, kept } = await ask(1);
  t.match(reply, { rcode: 0, answers: [{ address: '192.0.2.9', ttl: 0 }], flags: { aa: 0, ra: 0 } });
  t.equal(kept, false, 'threads ask again');
  t.equal((await ask(0)).reply.rcode, RCODE.REFUSED, 'a client of another view is not its client (R31)');
  t.same([agent.heard.length, other.heard.length], [1, 0]);
  await ask(1);
  t.equal(agent.heard.length, 2, 'a lifetime of 0 is asked for each time');
  agent.behave = () => ({ rcode: RCODE.SERVFAIL });
  t.match((await ask(1)).reply, { answers: [{ address: '192.0.2.9' }], ede: { code: 3 } }, 'while it fails, the last');
});
