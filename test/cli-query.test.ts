/** `holdfast query`, a small dig. */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import dns2 from 'dns2';
import t from 'tap';
import { holdfast } from './cli-fixture.js';
import { freePort } from './ports.js';

// Every run is a process, and the machine may be busy.
t.setTimeout(180_000);

const { Packet } = dns2;

/** A reply to `query` with what `fill` puts into it. */
function reply(query: Buffer, fill: (packet: InstanceType<typeof Packet>) => void): Buffer {
  const asked = Packet.parse(query);
  const packet = new Packet();
  packet.header.id = asked.header.id;
  packet.header.qr = 1;
  packet.header.aa = 1;
  packet.questions.push(asked.questions[0]!);
  fill(packet as InstanceType<typeof Packet>);
  return packet.toBuffer();
}

t.test('query asks with care and prints what it was told', async (t) => {
  const udp = createSocket('udp4');
  const tcp = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => udp.bind(port, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => tcp.listen(port, '127.0.0.1', resolve));
  t.teardown(() => {
    udp.close();
    tcp.close();
  });
  const srv = { type: Packet.TYPE.SRV, class: 1, ttl: 2, priority: 0, weight: 1 };
  const answer = (query: Buffer) =>
    reply(query, (packet) => {
      const { name } = packet.questions[0]!;
      packet.answers.push(
        new Packet.Resource({ ...srv, name, port: 8081, target: '10-0-0-1.ip.svc.internal' }),
        new Packet.Resource({ ...srv, name, port: 8082, target: '10-0-0-2.ip.svc.internal', priority: 10 }),
      );
      packet.additionals.push(
        new Packet.Resource({ name: '10-0-0-1.ip.svc.internal', type: 1, class: 1, ttl: 2, address: '10.0.0.1' }),
        Packet.Resource.EDNS([Packet.Resource.EDNS.EDE(3, 'registry not heard for 5 min')]),
      );
    });
  udp.on('message', (query, { port: back }) => {
    const send = (bytes: Buffer) => udp.send(bytes, back, '127.0.0.1');
    const name = Packet.parse(query).questions[0]!.name;
    if (name === 'silent.internal') return;
    if (name === 'none.internal') return send(reply(query, (packet) => void (packet.header.rcode = 3)));
    if (name === 'cut.internal') return send(reply(query, (packet) => void (packet.header.tc = 1)));
    if (name === 'forged.internal') {
      const forged = answer(query);
      forged.writeUInt16BE((forged.readUInt16BE(0) + 1) & 0xffff, 0);
      send(forged);
      send(query);
    }
    send(answer(query));
  });
  tcp.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.once('data', (data) => {
      const bytes = answer(data.subarray(2));
      const framed = Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
      // Cut at an awkward place: inside the length.
      socket.write(framed.subarray(0, 1));
      setTimeout(() => socket.write(framed.subarray(1)), 20);
    });
  });
  const to = ['--server', '127.0.0.1', '--port', String(port)];
  const settled = (out: string) =>
    out
      .replace(/id \d+/, 'id 1')
      .replace(/[\d.]+ ms/, '1 ms')
      .replace(`:${port}`, ':53')
      .replace(/\d+ bytes/, '9 bytes');
  const shown = (transport: string, name: string) => `;; NOERROR, id 1, flags: qr aa
;; EDE 3 (stale answer): registry not heard for 5 min
;; question: ${name}. IN SRV

;; answer
${name}.  2  IN  SRV  0 1 8081 10-0-0-1.ip.svc.internal.
${name}.  2  IN  SRV  10 1 8082 10-0-0-2.ip.svc.internal.

;; additional
10-0-0-1.ip.svc.internal.  2  IN  A  10.0.0.1

;; 127.0.0.1:53 over ${transport}, 9 bytes, 1 ms
`;
  const plainRun = await holdfast('query', '_orders._tcp.internal', ...to);
  t.same({ ...plainRun, out: settled(plainRun.out) }, { code: 0, err: '', out: shown('udp', '_orders._tcp.internal') });
  for (const args of [['cut.internal'], ['orders.internal', '--tcp']]) {
    const { code, out } = await holdfast('query', args[0]!, 'SRV', ...args.slice(1), ...to);
    t.same([code, settled(out)], [0, shown('tcp', args[0]!)]);
  }
  const forged = await holdfast('query', 'forged.internal', 'srv', '--short', ...to);
  t.same(forged, {
    code: 0,
    err: '',
    out: '0 1 8081 10-0-0-1.ip.svc.internal.\n10 1 8082 10-0-0-2.ip.svc.internal.\n',
  });
  const none = await holdfast('query', 'none.internal', '--json', ...to);
  t.equal(none.code, 1);
  t.match(JSON.parse(none.out), {
    status: 'NXDOMAIN',
    answer: [],
    ede: [],
    transport: 'udp',
    server: `127.0.0.1:${port}`,
  });
  const silent = await holdfast('query', 'silent.internal', '--timeout', '200', ...to);
  t.same(silent, { code: 1, out: '', err: `holdfast: 127.0.0.1:${port}: no reply within 200 ms\n` });
  const nobody = await holdfast('query', 'x', '--server', '127.0.0.1', '--port', String(await freePort()));
  t.equal(nobody.code, 1);
  t.match(nobody.err, 'nobody listens there: is `holdfast serve` running?');
});
