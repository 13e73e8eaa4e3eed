/** NOTIFY for several zones at one address. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { readMessage } from '../src/dns/read-message.js';
import { listenForNotify } from '../src/registry/dns-notify.js';
import { signMessage, type TsigKey, wallSeconds } from '../src/registry/dns-tsig.js';
import { encode } from './dns-registry-fixture.js';
import { freePort } from './ports.js';

t.test('zones that are told at one address are told each of its own, over UDP and TCP', async (t) => {
  const listen = { address: '127.0.0.1', port: await freePort() };
  const woken: string[] = [];
  const failed: string[] = [];
  const zone = (name: string, server: string): (() => void) =>
    listenForNotify({
      listen,
      zone: name,
      servers: [{ address: server, port: 53 }],
      key: async () => undefined,
      changed: () => void woken.push(name),
      failed: (reason) => void failed.push(reason),
    });
  const ends = [zone('a.test', '127.0.0.1'), zone('b.test', '127.0.0.1'), zone('c.test', '127.0.0.9')];
  t.teardown(() => {
    for (const end of ends) end();
  });
  const primary = createSocket('udp4').bind(0, '127.0.0.1');
  await once(primary, 'listening');
  t.teardown(() => void primary.close());
  const notify = (name: string): Uint8Array => encode(7, { name, type: TYPE.SOA }, [], { flags: 0x2400 });
  const overUdp = async (name: string): Promise<unknown> => {
    const reply = once(primary, 'message');
    primary.send(notify(name), listen.port, '127.0.0.1');
    const [bytes] = await reply;
    return readMessage(bytes)?.question?.name;
  };
  // The one that was there first, too.
  t.equal(await overUdp('a.test'), 'a.test');
  t.equal(await overUdp('b.test'), 'b.test');
  const socket = connect(listen.port, '127.0.0.1');
  const message = notify('b.test');
  socket.write(Buffer.concat([Buffer.from([0, message.length]), message]));
  const [framed] = await once(socket, 'data');
  t.equal(readMessage(framed.subarray(2))?.question?.name, 'b.test');
  primary.send(notify('c.test'), listen.port, '127.0.0.1');
  while (!woken.includes('a.test')) await new Promise(setImmediate);
  ends.shift()!();
  t.equal(await overUdp('b.test'), 'b.test', 'who stays is told when another one goes');
  while (!woken.includes('b.test')) await new Promise(setImmediate);
  t.same(new Set(woken), new Set(['a.test', 'b.test']), 'and none by servers of another one');
  t.same(failed, []);
});

t.test('of two that take one zone with keys of their own, whoever is meant answers', async (t) => {
  const listen = { address: '127.0.0.1', port: await freePort() };
  const said: string[] = [];
  const key = (name: string): TsigKey => ({ name, algorithm: 'hmac-sha256', secret: Buffer.from(name) });
  const reader = (name: string): (() => void) =>
    listenForNotify({
      listen,
      zone: 'a.test',
      servers: [{ address: '127.0.0.1', port: 53 }],
      key: async () => key(name),
      changed: () => void said.push(`${name} changed`),
      failed: (reason) => void said.push(`${name}: ${reason}`),
    });
  for (const end of [reader('one'), reader('two')]) t.teardown(end);
  const primary = createSocket('udp4').bind(0, '127.0.0.1');
  await once(primary, 'listening');
  t.teardown(() => void primary.close());
  const notify = encode(7, { name: 'a.test', type: TYPE.SOA }, [], { flags: 0x2400 });
  const reply = async (bytes: Uint8Array): Promise<unknown> => {
    const message = once(primary, 'message');
    primary.send(bytes, listen.port, '127.0.0.1');
    const { rcode, tsig } = readMessage((await message)[0])!;
    return { rcode, key: tsig?.name };
  };
  const signed = (name: string): Uint8Array => signMessage(notify, { key: key(name), seconds: wallSeconds() }).bytes;
  t.same(await reply(signed('one')), { rcode: 0, key: 'one' });
  t.same(await reply(signed('two')), { rcode: 0, key: 'two' });
  while (said.length < 2) await new Promise(setImmediate);
  t.same(said, ['one changed', 'two changed'], 'and nobody finds fault with what is for another one');
  t.same(await reply(signed('three')), { rcode: 9, key: 'three' });
  const fault = 'NOTIFY of 127.0.0.1 does not count: it is signed with another key';
  t.same(said.slice(2), [`one: ${fault}`, `two: ${fault}`]);
});
