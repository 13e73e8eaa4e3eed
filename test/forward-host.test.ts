/** A host's own network: servers that are known by their link alone, and names that mean the server itself. */
import { createSocket, Socket } from 'node:dgram';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import t, { type Test } from 'tap';
import { parseConfig } from '../src/config/load.js';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { exchangeUdp } from '../src/forward/exchange.js';
import { readResolvConf, withoutScope } from '../src/forward/resolv-conf.js';
import { a, Client, FakeUpstream, say } from './forward-fixture.js';

t.test('resolv.conf: a scope belongs to a link-local address, and to nothing else', (t) => {
  const lines = [
    'FE80::1%eth0',
    'fe80::2%3',
    'fe80::3',
    '2001:db8::1%eth0',
    '192.0.2.1%eth0',
    'fe80::4%',
    'fe80::5%a%b',
  ];
  const servers = readResolvConf(lines.map((server) => `nameserver ${server}\r\n`).join(''));
  t.same(
    servers.map(({ address }) => address),
    ['fe80::1%eth0', 'fe80::2%3', 'fe80::3'],
  );
  t.same(servers.map(({ address }) => withoutScope(address)).slice(0, 2), ['fe80::1', 'fe80::2']);
  t.end();
});

t.test('a server with a scope is asked', async (t) => {
  const server = await new FakeUpstream(() => ({ answers: [a('192.0.2.1')] })).start(t);
  const away = new Client(t, [{ address: 'fe80::1%none0', port: 53 }, server.at]);
  t.match(await away.ask('a.example', 'A'), { answers: [{ address: '192.0.2.1' }] }, 'unless there is no such link');

  const found = Object.entries(networkInterfaces()).flatMap(([name, of]) =>
    (of ?? []).filter(({ address }) => address.startsWith('fe80:')).map(({ address }) => `${address}%${name}`),
  )[0];
  if (found === undefined) {
    t.pass('scope', { skip: 'there is no link-local address here' });
    return;
  }
  const socket = createSocket('udp6').bind(0, found);
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  socket.on('message', (bytes, from) =>
    socket.send(say(bytes, { answers: [a('192.0.2.2')] }), from.port, from.address),
  );
  const there = new Client(t, [{ address: found, port: socket.address().port }]);
  t.match(await there.ask('a.example', 'A'), { answers: [{ address: '192.0.2.2' }] });
});

t.test('who asks for another way to this server hears that there is none (RFC 9462)', async (t) => {
  const server = await new FakeUpstream(() => ({ answers: [a('192.0.2.1')] })).start(t);
  const client = new Client(t, [server.at]);
  for (const name of ['_dns.resolver.arpa', 'resolver.arpa', '_dns.x.Resolver.ARPA'])
    t.match(await client.ask(name, 64), {
      rcode: RCODE.NOERROR,
      flags: { aa: 1 },
      answers: [],
      authorities: [{ type: TYPE.SOA }],
    });
  t.equal(server.heard.length, 0);
  await client.ask('x.arpa', 64);
  t.equal(server.heard.length, 1);
});

/** As where all descriptors are in use: a socket fails while it is being connected. */
async function withoutDescriptors(run: () => Promise<void>): Promise<void> {
  const { connect } = Socket.prototype;
  Socket.prototype.connect = function none(this: Socket): void {
    this.emit('error', Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }));
  };
  await run().finally(() => {
    Socket.prototype.connect = connect;
  });
}

t.test('a host without descriptors fails its questions, and does not take its upstreams for dead', async (t: Test) => {
  const server = await new FakeUpstream(() => ({ answers: [a('192.0.2.1')] })).start(t);
  const client = new Client(t, [server.at]);
  await withoutDescriptors(async () => {
    t.match(await client.ask('a.example', 'A', { edns: {} }), {
      rcode: RCODE.SERVFAIL,
      ede: { code: EDE.NETWORK_ERROR, text: 'no socket on this host (EMFILE)' },
    });
    client.forwarder.checkLoops(false);
    const cancel = exchangeUdp(server.at, Buffer.alloc(12), {
      reply: () => t.fail('a reply'),
      failed: () => t.fail('it was ended'),
      forged: () => t.fail('a reply'),
    });
    cancel();
  });
  t.match(client.forwarder.groups()[0]!.group.upstreams[0], { down: false, failures: 0 });
  t.match(await client.ask('b.example', 'A'), { answers: [{ address: '192.0.2.1' }] });
});

t.test('no server is asked for localhost, whatever the configuration says', (t) => {
  const config = (domain: string) =>
    `version: 1\nzones: [{ name: svc.test, registry: { type: file, path: s.yaml } }]\nforward: { upstreams: ["192.0.2.1:53"], domains: { ${domain}: ["192.0.2.2:53"] } }\n`;
  for (const domain of ['localhost', 'Dev.LocalHost'])
    t.throws(() => parseConfig(config(domain), 'holdfast.yaml'), /is this host, whose name is never forwarded/);
  t.doesNotThrow(() => parseConfig(config('onion'), 'holdfast.yaml'));
  t.end();
});
