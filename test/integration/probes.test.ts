/** Probes of each kind against servers as they are: nginx, HAProxy, OpenSSL, name servers, etcd. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../blackbox/program.js';
import { CERT, EXPIRED_CERT, KEY } from '../certificate-of-nobody.js';
import { freePorts } from '../ports.js';
import { probe } from '../probes-fixture.js';
import { EtcdServer, etcdVersion } from './etcd-server.js';
import { runServer } from './front.js';
import { missing } from './name-server-programs.js';
import { startServer } from './name-servers.js';

t.setTimeout(120_000);

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-probes-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'key.pem'), KEY);
  writeFileSync(join(folder, 'cert.pem'), CERT);
  writeFileSync(join(folder, 'both.pem'), CERT + KEY);
  writeFileSync(join(folder, 'expired.pem'), EXPIRED_CERT);
  return folder;
}

/** Until the port takes connections. */
function listens(port: number): Promise<unknown> {
  return until(`port ${port}`, async () => (await probe({ type: 'tcp', port })) === 'pass');
}

t.test('nginx: HTTP and HTTPS', { skip: missing('nginx') }, async (t) => {
  const folder = folderOf(t);
  const [plain, secure] = await freePorts(2);
  mkdirSync(join(folder, 'logs'));
  const places = ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => {
    return `${one === 'body' ? 'client_body' : one}_temp_path ${folder}/${one};`;
  });
  const server = `
    location = /ok { add_header X-Service orders; return 200 "orders: well\\n"; }
    location = /old { return 301 /ok; }
    location = /drain { add_header X-Drain yes always; return 503; }
    location = /host { return 200 "$host\\n"; }
    location = /zip { gzip on; gzip_types *; gzip_min_length 1; return 200 "well"; }
    location / { return 404; }`;
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/pid; error_log ${folder}/logs/error; worker_processes 1; user root;
events {}
http { access_log ${folder}/logs/access; ${places.join(' ')}
  server { listen 127.0.0.1:${plain}; ${server} }
  server { listen 127.0.0.1:${secure} ssl; ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem; ${server} }
}`,
  );
  runServer(t, 'nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder, '-e', join(folder, 'logs', 'error')]);
  await listens(plain!);
  for (const [type, port] of [
    ['http', plain!],
    ['https', secure!],
  ] as const) {
    const http = (path: string, over = {}) => probe({ type, port, path, ...over });
    t.equal(await http('/ok', { body: 'well', identityHeader: ['X-Service', 'orders'] }), 'pass');
    t.equal(await http('/ok', { method: 'HEAD' }), 'pass');
    t.equal(await http('/ok', { identityBody: 'billing' }), 'wrong-identity: the body does not say who it should be');
    t.equal(await http('/old'), 'bad-status: HTTP 301', 'no redirect is followed');
    t.equal(await http('/old', { status: [[301, 301]] }), 'pass');
    t.equal(await http('/none'), 'bad-status: HTTP 404');
    t.equal(await http('/drain'), 'bad-status: HTTP 503');
    t.equal(await http('/drain', { drainHeader: 'X-Drain' }), 'pass');
    t.equal(await http('/host', { host: 'orders.example', body: 'orders.example' }), 'pass');
    t.equal(await http('/zip', { body: 'well' }), 'pass', 'who does not ask for a coding gets none');
  }
  t.equal(await probe({ type: 'https', port: secure!, path: '/ok', tlsName: 'probe.test' }), 'pass');
  t.match(await probe({ type: 'https', port: secure!, path: '/ok', tlsName: 'x.test' }), /^wrong-identity: /);
  t.match(await probe({ type: 'https', port: plain!, path: '/ok' }), /^bad-status: (EPROTO|ERR_SSL)/);
  t.equal(await probe({ type: 'http', port: secure!, path: '/ok' }), 'bad-status: HTTP 400');
});

t.test('HAProxy: what is behind it, and who wants a PROXY line', { skip: missing('haproxy') }, async (t) => {
  const folder = folderOf(t);
  const [open, proxied, refusing, secure] = await freePorts(4);
  const up = `  http-request return status 200 content-type text/plain string well\n`;
  writeFileSync(
    join(folder, 'haproxy.cfg'),
    `global
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend open
  bind 127.0.0.1:${open}
${up}frontend proxied
  bind 127.0.0.1:${proxied} accept-proxy
${up}frontend refusing
  bind 127.0.0.1:${refusing}
  http-request reject
frontend secure
  bind 127.0.0.1:${secure} ssl crt ${folder}/both.pem alpn h2
${up}`,
  );
  runServer(t, 'haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')]);
  await listens(open!);
  t.equal(await probe({ type: 'http', port: open!, body: 'well' }), 'pass');
  t.equal(await probe({ type: 'tcp', port: proxied!, farewell: 'PROXY UNKNOWN\r\n' }), 'pass');
  t.match(await probe({ type: 'http', port: proxied!, timeout: 1_000 }), /^(bad-status|reset|timeout): /);
  t.match(await probe({ type: 'http', port: refusing! }), /^(bad-status: closed|reset)/);
  t.equal(await probe({ type: 'tls', port: secure!, tlsName: 'probe.test' }), 'pass');
  t.match(
    await probe({ type: 'grpc', port: secure!, tlsName: 'probe.test' }),
    /^bad-status: /,
    'HTTP/2, and no health of gRPC',
  );
});

t.test('OpenSSL: versions of TLS, and a certificate that has ended', { skip: missing('openssl') }, async (t) => {
  const folder = folderOf(t);
  const [newest, older, expired] = await freePorts(3);
  const serve = (port: number, cert: string, ...more: string[]) => {
    const files = ['-cert', join(folder, cert), '-key', join(folder, 'key.pem')];
    runServer(t, 'openssl', ['s_server', '-quiet', '-accept', `127.0.0.1:${port}`, ...files, ...more]);
    return listens(port);
  };
  await serve(newest!, 'cert.pem', '-tls1_3');
  await serve(older!, 'cert.pem', '-tls1_2');
  await serve(expired!, 'expired.pem');
  for (const port of [newest!, older!]) {
    t.equal(await probe({ type: 'tls', port, tlsName: 'probe.test', minValidity: 86_400_000 }), 'pass');
    t.match(await probe({ type: 'tls', port, tlsName: 'other.test' }), /^wrong-identity: /);
  }
  t.match(await probe({ type: 'tls', port: expired! }), /^bad-status: the certificate ends /);
});

const ZONE_TEXT = `$ORIGIN probed.test.
@ 60 IN SOA ns admin 1 60 60 60 60
@ 60 IN NS ns
ns 60 IN A 192.0.2.1
`;

for (const [name, program] of [
  ['BIND', 'named'],
  ['NSD', 'nsd'],
  ['Knot', 'knotd'],
] as const)
  t.test(`${name}: DNS over UDP and TCP`, { skip: missing(program) }, async (t) => {
    const port = await startServer(t, program, 'probed.test', ZONE_TEXT);
    for (const protocol of ['udp', undefined] as const) {
      const dns = (query: string, queryType = 6) =>
        probe({ type: 'dns', port, query, queryType, ...(protocol === undefined ? {} : { protocol }) });
      t.equal(await dns('probed.test'), 'pass');
      t.equal(await dns('ns.probed.test', 1), 'pass');
      t.equal(await dns('none.probed.test', 1), 'bad-status: NXDOMAIN');
      t.match(await dns('elsewhere.example'), /^bad-status: (REFUSED|SERVFAIL)/);
    }
  });

t.test('etcd: health of gRPC', { skip: etcdVersion() === undefined && 'no etcd here' }, async (t) => {
  const server = await EtcdServer.start(folderOf(t));
  t.teardown(() => server.stop());
  const { port } = server;
  const grpc = (grpcService?: string) =>
    probe({ type: 'grpc', port, ...(grpcService === undefined ? {} : { grpcService }) });
  t.equal(await grpc(), 'pass');
  t.match(await grpc('no.such.Service'), /^wrong-identity: /);
  t.equal(await probe({ type: 'http', port, path: '/health', body: 'true' }), 'pass');
});
