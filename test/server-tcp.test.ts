/** Answers over TCP. */
import { once } from 'node:events';
import t from 'tap';
import { ConnectionTable } from '../src/server/connection-table.js';
import { tcpLimits } from '../src/server/tcp-limits.js';
import {
  framed,
  localhost,
  openDescriptors,
  pause,
  question,
  Served,
  TcpClient,
  until,
  WEB,
} from './server-fixture.js';

t.setTimeout(120_000);

t.test('TCP', async (t) => {
  const served = await new Served('portable').start(t, {
    transport: 'portable',
    tcp: { maxConnections: 8, idleTimeout: 1_500, messageTimeout: 1_000 },
  });
  const at = localhost(served.port);
  const open = () => new TcpClient(at);

  t.test('two queries in one segment and a half-close: both are answered (D15)', async (t) => {
    const client = open();
    client.socket.end(framed(question('web.svc.test', 'A', 1), question('web.svc.test', 'AAAA', 2)));
    t.same(
      (await client.take(2)).map((r) => [r.bytes[1], r.answers.length]),
      [
        [1, 1],
        [2, 0],
      ],
    );
    await until(() => client.closed);
  });

  t.test('a message cut anywhere is one message, the length too', async (t) => {
    const client = open();
    client.socket.setNoDelay(true);
    const bytes = framed(question('web.svc.test', 'A', 1), question('web.svc.test', 'A', 2));
    for (const byte of bytes) {
      client.socket.write(Buffer.from([byte]));
      await pause(1);
    }
    t.same(
      (await client.take(2)).map((r) => r.bytes[1]),
      [1, 2],
    );
    client.socket.destroy();
  });

  t.test('hundreds of queries at once are answered in order, with one write for many', async (t) => {
    const client = open();
    const ids = Array.from({ length: 500 }, (_, i) => i);
    client.socket.end(framed(...ids.map((id) => question('crowd.svc.test', 'A', id))));
    const replies = await client.take(500);
    t.same(
      replies.map((r) => (r.bytes[0]! << 8) | r.bytes[1]!),
      ids,
    );
    t.ok(replies.every((r) => r.answers.length === 60));
  });

  t.test('a client that does not read is not read from, and gets everything when it does', async (t) => {
    const client = open();
    await once(client.socket, 'connect');
    client.socket.pause();
    const before = process.memoryUsage().rss;
    const QUERIES = 40_000;
    client.socket.end(framed(...Array(QUERIES).fill(question('crowd.svc.test', 'A'))));
    await pause(300);
    t.ok(process.memoryUsage().rss - before < 30e6, '40 MB of answers do not wait in memory');
    let bytes = 0;
    client.socket.removeAllListeners('data');
    client.socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    client.socket.resume();
    await until(() => client.closed);
    const one = 2 + 12 + 16 + 4 + 60 * 16;
    t.equal(bytes, QUERIES * one);
  });

  t.test('a message without a byte closes, what came before is answered', async (t) => {
    const client = open();
    client.socket.write(Buffer.concat([framed(WEB), Buffer.from([0, 0]), framed(WEB)]));
    await until(() => client.closed);
    t.equal(client.messages().length, 1);
  });

  t.test('a message that never ends, a client that never reads and an idle one are closed', async (t) => {
    const before = served.server.transportCounters().tcpTimeouts;
    const drip = open();
    drip.socket.write(Buffer.from([0xff, 0xff]));
    const dripping = setInterval(() => drip.socket.write(Buffer.from([0])), 100);
    const deaf = open();
    await once(deaf.socket, 'connect');
    deaf.socket.pause();
    deaf.socket.write(framed(...Array(20_000).fill(question('crowd.svc.test', 'A'))));
    const idle = open();
    await until(() => drip.closed && idle.closed && served.server.transportCounters().tcpTimeouts === before + 3);
    clearInterval(dripping);
    deaf.socket.destroy();
    t.equal(drip.received + idle.received, 0);
  });

  t.test('too many connections: the idlest goes, the newest is served', async (t) => {
    const clients: TcpClient[] = [];
    for (let i = 0; i < 8; i++) {
      const client = open();
      client.socket.write(framed(WEB));
      await client.take(1);
      clients.push(client);
    }
    clients[0]!.socket.write(framed(WEB));
    await clients[0]!.take(2);
    const ninth = open();
    ninth.socket.write(framed(WEB));
    t.equal((await ninth.take(1)).length, 1);
    await until(() => clients[1]!.closed);
    t.same(
      clients.map((c) => c.closed),
      [false, true, false, false, false, false, false, false],
    );
    t.ok(served.server.transportCounters().tcpEvicted >= 1);
    for (const client of [...clients, ninth]) client.socket.destroy();
  });

  t.test('connections reset at any moment do no harm (D14)', async (t) => {
    const before = openDescriptors();
    const bytes = framed(WEB);
    const moments = [0, 1, 2, 9, bytes.length];
    for (let i = 0; i < 300; i++) {
      const client = open();
      await once(client.socket, 'connect');
      client.socket.write(bytes.subarray(0, moments[i % moments.length]));
      if (i % 2) await pause(0);
      client.socket.resetAndDestroy();
    }
    const client = open();
    client.socket.end(bytes);
    t.equal((await client.take(1)).length, 1);
    await until(() => openDescriptors() <= before);
    t.equal(served.server.restarts, 0);
  });
});

t.test('one client cannot take all connections, but loopback is many clients', async (t) => {
  const table = new ConnectionTable<{ client: string; n: number }>({ maxConnections: 5, maxConnectionsPerClient: 2 });
  const connections = ['192.0.2.1', '192.0.2.1', '127.0.0.1', '127.0.0.1'].map((client, n) => ({ client, n }));
  for (const connection of connections) {
    t.equal(table.inTheWay(connection.client), undefined);
    table.add(connection);
  }
  table.touch(connections[0]!);
  t.equal(table.inTheWay('192.0.2.1')?.n, 1, 'the idlest of its own');
  t.equal(table.inTheWay('127.0.0.1'), undefined);
  table.add({ client: '127.0.0.1', n: 4 });
  t.equal(table.inTheWay('127.0.0.1')?.n, 1, 'at the cap the idlest of all');
  table.delete(connections[1]!);
  t.equal(table.inTheWay('192.0.2.1'), undefined);
});

t.test('connections leave descriptors for everything else', async (t) => {
  t.equal(tcpLimits({}, 1_000_000).maxConnections, 1_024);
  t.equal(tcpLimits({}, 256).maxConnections, 128);
  t.equal(tcpLimits({ maxConnections: 20 }, 256).maxConnections, 20);
});

t.test('at a stop, who has just connected is still answered, and half a question is waited for', async (t) => {
  const served = await new Served('portable').start(t, { transport: 'portable' });
  const late = new TcpClient(localhost(served.port));
  const half = new TcpClient(localhost(served.port));
  const done = new TcpClient(localhost(served.port));
  const bytes = framed(question('web.svc.test', 'A', 7));
  await Promise.all([late, half, done].map(({ socket }) => once(socket, 'connect')));
  done.socket.write(bytes);
  await done.take(1);
  half.socket.write(bytes.subarray(0, 9));
  await pause(100);
  const stopped = served.server.stop();
  await until(() => done.closed);
  late.socket.write(bytes);
  half.socket.write(bytes.subarray(9));
  for (const client of [late, half]) {
    t.equal((await client.take(1))[0]?.bytes[1], 7);
    await until(() => client.closed);
  }
  await stopped;
});
