/** What a registry was told in confidence is repeated nowhere, however much its server repeats it. */
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { freePort, Host, until } from './program.js';

t.setTimeout(240_000);

const LOUDLY = 'what it was told: ';

/** How a server repeats what it was told: with a status, in a body made of it. */
const WAYS: readonly [status: number, body: (told: string) => string][] = [
  [500, (told) => told],
  [403, (told) => `Permission denied: ${told}`],
  [401, (told) => JSON.stringify({ error: told, message: told, code: 16 })],
  [400, (told) => JSON.stringify({ error: `etcdserver: invalid auth token ${told}`, message: told, code: 3 })],
  [429, (told) => encodeURIComponent(told)],
  [503, (told) => Buffer.from(told).toString('base64')],
  [404, (told) => JSON.stringify(told)],
  [200, (told) => told],
  [200, (told) => JSON.stringify({ error: { message: told }, token: told, kvs: [{ key: told, value: told }] })],
  [200, (told) => `{"result":{"canceled":true,"cancel_reason":${JSON.stringify(told)}}}\n`],
];

/** It tells the truth first, and then repeats everything. */
class Parrot {
  loud = false;
  asked = 0;
  origin = '';
  #way = 0;

  say(way: number): void {
    this.#way = way;
    this.asked = 0;
  }

  async start(t: Test, truth: (path: string, res: ServerResponse) => void): Promise<this> {
    const server = createServer(async (req: IncomingMessage, res) => {
      const told = `${LOUDLY}${secretsIn(req).join(' ')} ${await readText(req)}`;
      if (!this.loud) {
        truth(req.url ?? '/', res);
        return;
      }
      this.asked++;
      const [status, body] = WAYS[this.#way]!;
      res.writeHead(status, {
        'content-type': 'application/json',
        'x-consul-index': '5',
        'x-told': told.slice(0, 500),
      });
      res.end(body(told));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    return this;
  }
}

/** The values alone, and the whole of the request. */
function secretsIn(req: IncomingMessage): string[] {
  const { authorization = '', 'x-consul-token': token = '' } = req.headers;
  const [, basic] = /^Basic (.*)$/.exec(authorization) ?? [];
  return [
    authorization,
    String(token),
    basic === undefined ? '' : Buffer.from(basic, 'base64').toString(),
    req.url ?? '',
  ];
}

const json = (res: ServerResponse, value: unknown): void => {
  res.writeHead(200, { 'content-type': 'application/json', 'x-consul-index': '5', 'x-consul-knownleader': 'true' });
  res.end(JSON.stringify(value));
};

t.test('no secret is logged, shown, counted, explained or kept', async (t) => {
  const secret = (of: string): string => `hush-${of}-${randomBytes(9).toString('base64url')}"\\/+ `.trim();
  const secrets = {
    consul: secret('consul'),
    etcdPassword: secret('etcd-password'),
    etcdToken: `hush-etcd-token.${randomBytes(9).toString('base64url')}`,
    bearer: secret('bearer'),
    basic: secret('basic'),
    query: `hush-query-${randomBytes(9).toString('hex')}`,
    tsig: randomBytes(24).toString('base64'),
  };
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  const admin = await freePort();
  const row = Buffer.from('{"address":"10.0.0.1","port":80}').toString('base64');
  const etcd = await new Parrot().start(t, (path, res) => {
    if (path.endsWith('authenticate')) return json(res, { token: secrets.etcdToken });
    if (path.endsWith('watch')) return void res.writeHead(200).write('{"result":{"created":true}}\n');
    const kvs = [{ key: Buffer.from('/holdfast/orders/1').toString('base64'), value: row, mod_revision: '3' }];
    return json(res, { header: { cluster_id: '1', revision: '5' }, kvs, count: '1' });
  });
  const consul = await new Parrot().start(t, (path, res) => json(res, path.includes('services') ? {} : []));
  const list = [{ targets: ['10.0.0.2:80'], labels: { job: 'orders' } }];
  const bearer = await new Parrot().start(t, (_path, res) => json(res, list));
  const basic = await new Parrot().start(t, (_path, res) => json(res, list));
  const port = await freePort();
  const dns = createSocket('udp4').bind(port, '127.0.0.1');
  const tcp = createTcpServer((socket) => void socket.on('error', () => {}).pipe(socket));
  await once(dns, 'listening');
  tcp.listen(port, '127.0.0.1');
  dns.on('message', (bytes, from) => {
    bytes[2]! |= 0x80;
    dns.send(bytes, from.port, from.address);
  });
  t.teardown(() => {
    dns.close();
    tcp.close();
  });

  const file = (name: string, text: string): string => {
    writeFileSync(join(host.folder, name), text);
    return name;
  };
  const zone = (name: string, registry: string): string =>
    `  - { name: ${name}, softTtl: 2s, check: { type: none }, registry: { ${registry} } }`;
  const write = (): void =>
    writeFileSync(
      host.config,
      [
        'version: 1',
        `listen: ["127.0.0.1:${host.port}"]`,
        'stateDir: state',
        'runDir: run',
        `admin: "127.0.0.1:${admin}"`,
        'log: { level: trace }',
        'zones:',
        zone(
          'etcd.test',
          `type: etcd, endpoints: ["${etcd.origin}"], layout: plain, username: me, passwordFile: ${file('pw', secrets.etcdPassword)}`,
        ),
        zone('consul.test', `type: consul, address: "${consul.origin}", tokenFile: ${file('ct', secrets.consul)}`),
        zone(
          'bearer.test',
          `type: http, interval: 1s, url: "${bearer.origin}/sd?token=${secrets.query}", tokenFile: ${file('bt', secrets.bearer)}`,
        ),
        zone(
          'basic.test',
          `type: http, interval: 1s, url: "${basic.origin}/sd", username: me, passwordFile: ${file('bp', secrets.basic)}`,
        ),
        zone(
          'dns.test',
          `type: dns, interval: 1s, servers: ["127.0.0.1:${port}"], transfer: axfr, tsigKeyFile: ${file('tk', `hmac-sha256:me:${secrets.tsig}`)}`,
        ),
        '',
      ].join('\n'),
    );
  write();
  let resolver = await host.serve();
  const told: string[] = [];
  const snapshots = join(host.folder, 'state', 'snapshots');
  await until('three snapshots', () =>
    ['etcd', 'bearer', 'basic'].every((name) => readdirSync(snapshots).join().includes(name)),
  );
  for (const name of readdirSync(snapshots)) told.push(readFileSync(join(snapshots, name), 'latin1'));
  const parrots = [etcd, consul, bearer, basic];
  for (const parrot of parrots) parrot.loud = true;
  for (const way of WAYS.keys()) {
    // A host that knows nothing asks at once.
    resolver.kill('SIGKILL');
    await resolver.ended;
    for (const parrot of parrots) parrot.say(way);
    told.push(resolver.output);
    rmSync(join(host.folder, 'state'), { recursive: true });
    resolver = await host.serve();
    await until(`all asked, way ${way}`, () => parrots.every((parrot) => parrot.asked > 0));
    // HTTP is opened after the first answer.
    for (const path of [
      '',
      'metrics',
      'v1/status',
      'v1/services',
      'readyz',
      'v1/explain?name=orders.bearer.test&type=A',
    ])
      told.push(await until(path, async () => (await fetch(`http://127.0.0.1:${admin}/${path}`)).text()));
  }
  told.push(host.command('status').stdout, host.command('status', '--json').stdout);
  told.push(host.command('explain', 'orders.etcd.test', 'SRV', '--json').stdout);
  t.match(told.join(), /Permission denied/, 'there was something to tell');
  writeFileSync(host.config, readFileSync(host.config, 'utf8').replace('http://', `ftp://me:${secrets.query}@`));
  told.push(host.command('check').stderr);
  t.match(told.at(-1), /credentials do not belong in a URL/);
  resolver.kill('SIGTERM');
  await resolver.ended;
  told.push(resolver.output);
  for (const [name, value] of Object.entries(secrets)) {
    const bytes = Buffer.from(value);
    const forms = [
      value,
      JSON.stringify(value).slice(1, -1),
      encodeURIComponent(value),
      bytes.toString('base64'),
      bytes.toString('hex'),
    ];
    for (const text of told)
      for (const form of forms) {
        const at = text.indexOf(form);
        if (at !== -1) t.fail(`${name}: ${text.slice(Math.max(0, at - 200), at + 80)}`);
      }
  }
});
