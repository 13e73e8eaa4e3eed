/** Each client asks for the same: names of a zone, SRV, names of elsewhere, nothing, much; with a registry and without. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { until } from '../../blackbox/program.js';
import { root } from '../../root.js';
import { type Ran, World } from './world.js';

t.setTimeout(400_000);

/** Go compiles its library the first time. */
const BUILD_MS = 240_000;
const here = (file: string) => join(root, 'test', 'integration', 'clients', file);
const missing = (...commands: string[]) => {
  const none = commands.filter((command) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0);
  return none.length === 0 ? false : `no ${none.join(', no ')} here`;
};

/** A way to ask: lines of addresses, lines of `PORT TARGET`; a code other than 0, or a line with `!`, is a failure. */
interface Client {
  readonly name: string;
  readonly skip: string | false;
  /** Once, before it is asked. */
  readonly prepare?: (world: World) => Promise<Ran>;
  readonly addresses: (world: World, name: string) => Promise<Ran>;
  readonly srv?: (world: World, name: string) => Promise<Ran>;
  /** It uses the search list. */
  readonly search?: boolean;
  /** It knows no TCP: a part is enough. */
  readonly cut?: boolean;
  /** It asks nobody else once it was refused: Node has c-ares report REFUSED at once. */
  readonly stays?: boolean;
  /** Options of resolv.conf that it is to be tried with. */
  readonly options?: readonly string[];
}

const PYTHON = `
import socket, sys
try:
  for one in sorted(set(i[4][0] for i in socket.getaddrinfo(sys.argv[1], 80, type=socket.SOCK_STREAM))): print(one)
except OSError as error:
  print('!', error); sys.exit(1)`;
const NODE_LOOKUP = `require('dns').lookup(process.argv[1], { all: true }, (e, l) =>
  e ? console.log('!', e.code) : l.forEach(({ address }) => console.log(address)))`;
const NODE_RESOLVE = `const { resolve4, resolve6 } = require('dns').promises;
Promise.allSettled([resolve4(process.argv[1]), resolve6(process.argv[1])]).then((both) => {
  const all = both.flatMap(({ value }) => value ?? []);
  console.log(all.length ? all.join('\\n') : '! ' + both.map(({ reason }) => reason.code));
})`;
const NODE_SRV = `require('dns').resolveSrv(process.argv[1], (e, l) =>
  e ? console.log('!', e.code) : l.forEach(({ port, name }) => console.log(port, name)))`;

const node = (script: string) => (world: World, name: string) =>
  world.run(process.execPath, ['-e', script, '--', name]);
const built = (file: string, how: string) => (world: World, name: string) => world.run(`./${file}`, [how, name]);
const java = (how: string) => async (world: World, name: string) => {
  const { code, lines } = await world.run('java', [
    '-Xshare:auto',
    '-XX:TieredStopAtLevel=1',
    '-cp',
    '.',
    'Lookup',
    how,
    name,
  ]);
  return { code, lines: lines.filter((line) => line !== '-') };
};
/** \`Address: X\` lines behind the name, but not the server's own. */
const nslookup = async (world: World, name: string) => {
  const { code, lines } = await world.run('busybox', ['nslookup', name, '127.0.0.1']);
  const from = lines.findIndex((line) => line.startsWith('Name:'));
  const found = lines.slice(Math.max(from, 0)).flatMap((line) => /^Address(?: \d+)?:\s+(\S+)/.exec(line)?.[1] ?? []);
  return from < 0 ? { code: code || 1, lines: ['! none'] } : { code: 0, lines: found };
};

const LIBC_OPTIONS = [
  'single-request',
  'single-request-reopen',
  'use-vc',
  'edns0',
  'trust-ad',
  'rotate',
  'ndots:5',
  'no-aaaa',
];
const CLIENTS: readonly Client[] = [
  {
    name: 'glibc, getaddrinfo and res_search',
    skip: missing('cc'),
    prepare: (world) => world.run('cc', ['-O1', '-o', 'glibc', here('lookup.c'), '-lresolv']),
    addresses: built('glibc', 'a'),
    srv: built('glibc', 'srv'),
    search: true,
    options: LIBC_OPTIONS,
  },
  {
    name: 'glibc, getent',
    skip: missing('getent'),
    addresses: async (world, name) => {
      const { code, lines } = await world.run('getent', ['ahosts', name]);
      return { code, lines: lines.map((line) => line.split(/\s+/)[0]!) };
    },
    search: true,
  },
  {
    name: 'musl',
    skip: missing('musl-gcc'),
    prepare: (world) => world.run('musl-gcc', ['-O1', '-static', '-o', 'musl', here('lookup.c')]),
    addresses: built('musl', 'a'),
    srv: built('musl', 'srv'),
    search: true,
    cut: true,
    options: ['ndots:5'],
  },
  { name: 'Node, lookup', skip: false, addresses: node(NODE_LOOKUP), search: true, options: ['use-vc', 'edns0'] },
  {
    name: 'c-ares (Node, resolve)',
    skip: false,
    addresses: node(NODE_RESOLVE),
    srv: node(NODE_SRV),
    stays: true,
    options: ['use-vc', 'edns0', 'rotate'],
  },
  {
    name: 'Go',
    skip: missing('go'),
    prepare: (world) => world.run('go', ['build', '-o', 'golang', here('lookup.go')], { GO111MODULE: 'off' }, BUILD_MS),
    addresses: built('golang', 'a'),
    srv: built('golang', 'srv'),
    search: true,
    options: ['single-request', 'use-vc', 'edns0', 'trust-ad', 'rotate', 'ndots:5'],
  },
  {
    name: 'Java',
    skip: missing('java', 'javac'),
    prepare: (world) => world.run('javac', ['-d', '.', here('Lookup.java')]),
    addresses: java('a'),
    srv: java('srv'),
    search: true,
  },
  {
    name: 'Python',
    skip: missing('python3'),
    addresses: (world, name) => world.run('python3', ['-c', PYTHON, name]),
    search: true,
    options: ['single-request', 'use-vc'],
  },
  { name: 'busybox nslookup', skip: missing('busybox'), addresses: nslookup, cut: true },
];

const failed = ({ code, lines }: Ran) => code !== 0 || lines.some((line) => line.startsWith('!'));
/** Without the last dot; IPv6 addresses in their short form. */
const tidy = (line: string) =>
  line.includes(':') && !line.includes(' ')
    ? new URL(`http://[${line}]`).hostname.slice(1, -1)
    : line.replace(/\.$/, '');
const sorted = ({ lines }: Ran) => [...new Set(lines.map(tidy))].sort();

export async function matrix(reason: string | undefined): Promise<void> {
  if (reason !== undefined) {
    t.pass('clients are not asked', { skip: reason });
    return;
  }
  const world = await new World().start(t);
  for (const client of CLIENTS) {
    if (client.skip) console.error(`skipped: ${client.name}: ${client.skip}`);
    await t.test(client.name, { skip: client.skip }, async (t) => {
      const prepared = await client.prepare?.(world);
      if (prepared && failed(prepared)) throw new Error(prepared.lines.join('\n'));
      await all(t, world, client);
      for (const option of client.options ?? []) {
        world.resolvConf(option);
        await t.test(`options ${option}`, (t) => some(t, world, client));
      }
      world.resolvConf();
    });
  }
  await t.test('curl', { skip: missing('curl') }, (t) => curl(t, world));
  const haproxy = missing('haproxy') ? undefined : startHaproxy(world);
  const nginx = missing('nginx') ? undefined : startNginx(world);
  await t.test('HAProxy, server-template by SRV', { skip: missing('haproxy') }, (t) => both(t, world, haproxy!));
  await t.test('nginx, a name that is resolved again', { skip: missing('nginx') }, (t) => one(t, world, nginx!));

  await t.test('a name of elsewhere goes on to the next nameserver, one of a zone never does (D54)', async (t) => {
    const asked = await world.second(t);
    for (const client of CLIENTS) {
      // Its server is an argument.
      if (client.skip || client.addresses === nslookup) continue;
      const elsewhere = await client.addresses(world, 'www.example');
      if (client.stays) t.ok(failed(elsewhere), `${client.name} stays`);
      else t.same(sorted(elsewhere), ['192.0.2.2'], `${client.name}, elsewhere`);
      // musl asks all of them at once, and takes what comes first.
      if (client.name !== 'musl') {
        t.same(
          sorted(await client.addresses(world, 'web.svc.test')),
          ['10.0.0.1', '10.0.0.2'],
          `${client.name}, a zone`,
        );
        t.ok(failed(await client.addresses(world, 'nope.svc.test.')), `${client.name}, not there`);
        const leaked = asked.filter((name) => name.endsWith('svc.test'));
        t.same(leaked, [], `${client.name} asks nobody else`);
      }
      asked.length = 0;
    }
    world.configure(true);
    world.program.kill('SIGHUP');
    world.resolvConf();
    await until('forwarding', async () => (await world.host.ask('www.example. A +rd')).rcode === 'NOERROR');
  });

  await t.test('a stranger is refused by default, and is no amplifier where anybody may ask (R31)', async (t) => {
    const rcode = async (name: string) => (await world.askFrom('203.0.113.7', name, 'A')).reply[3]! & 15;
    t.same([await rcode('web.svc.test'), await rcode('www.example')], [5, 5]);
    t.same((await world.askFrom('10.255.0.1', 'www.example', 'A')).reply[3]! & 15, 0, 'a neighbour is not');
    world.configure(true, ', allow: ["0.0.0.0/0", "::/0"]');
    world.program.kill('SIGHUP');
    await until('an open resolver', async () => (await rcode('www.example')) === 0);
    for (const name of [
      'crowd.svc.test',
      'big.example',
      'web.svc.test',
      'www.example',
      'nope.svc.test',
      'x.gone.example',
    ])
      for (let i = 0; i < 3; i++) {
        const { asked, reply } = await world.askFrom('203.0.113.7', name, 'A');
        t.ok(reply.length <= 3 * asked, `${name}: ${reply.length} for ${asked}`);
        if (name.startsWith('crowd') || name.startsWith('big')) t.equal(reply[2]! & 2, 2, `${name}: TC`);
        const near = await world.askFrom('10.255.0.1', name, 'A');
        t.ok(near.reply.length >= reply.length);
      }
    world.configure(true);
    world.program.kill('SIGHUP');
    await until('no open resolver', async () => (await rcode('www.example')) === 5);
  });

  await t.test('the registry goes, and nothing changes for any of them', async (t) => {
    await world.outage();
    for (const client of CLIENTS) {
      if (client.skip) continue;
      t.same(sorted(await client.addresses(world, 'web.svc.test')), ['10.0.0.1', '10.0.0.2'], client.name);
      if (client.srv) t.equal((await client.srv(world, '_web._tcp.svc.test')).lines.length, 2, `${client.name}, SRV`);
    }
    // Longer than they keep what they know.
    await new Promise((done) => setTimeout(done, 3_000));
    if (haproxy) await both(t, world, haproxy);
    if (nginx) await one(t, world, nginx);
    if (!missing('curl')) await curl(t, world);
  });
}

async function all(t: Test, world: World, client: Client): Promise<void> {
  const ask = async (name: string) => sorted(await client.addresses(world, name));
  await some(t, world, client);
  t.same(await ask('six.svc.test'), ['fd00::1'], 'IPv6 alone');
  t.same(await ask('both.svc.test'), ['10.0.0.3', 'fd00::3'], 'both families');
  const crowd = (await ask('crowd.svc.test')).length;
  t.ok(client.cut ? crowd > 0 && crowd <= 200 : crowd === 200, `much of a zone: ${crowd}`);
  const big = (await ask('big.example')).length;
  t.ok(client.cut ? big > 0 && big <= 200 : big === 200, `much of elsewhere: ${big}`);
  t.ok(failed(await client.addresses(world, 'x.gone.example')), 'a name that is not there elsewhere');
  if (client.search) t.same(await ask('web'), ['10.0.0.1', '10.0.0.2'], 'the search list');
}

async function some(t: Test, world: World, client: Client): Promise<void> {
  const ask = async (name: string) => sorted(await client.addresses(world, name));
  t.same(await ask('web.svc.test'), ['10.0.0.1', '10.0.0.2'], 'a name of a zone, without IPv6');
  t.same(await ask('www.example'), ['192.0.2.1'], 'a name of elsewhere, without IPv6');
  t.ok(failed(await client.addresses(world, 'nope.svc.test')), 'a name that is not there');
  if (!client.srv) return;
  t.same(
    sorted(await client.srv(world, '_web._tcp.svc.test')),
    ['8081 10-0-0-1.ip.svc.test', '8082 10-0-0-2.ip.svc.test'],
    'SRV',
  );
  t.same(await ask('10-0-0-1.ip.svc.test'), ['10.0.0.1'], 'a target');
}

async function curl(t: Test, world: World): Promise<void> {
  for (const { port, name } of world.sites)
    t.same((await world.run('curl', ['-s', `http://site.svc.test:${port}/`])).lines, [name]);
  t.equal((await world.run('curl', ['-s', 'http://nope.svc.test/'])).code, 6, 'a name that is not there');
}

const fetched = (port: number) =>
  new Promise<string>((done, fail) => {
    const request = get({ host: '127.0.0.1', port, agent: false, timeout: 2_000 }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => done(`${response.statusCode} ${text}`));
    });
    request.on('timeout', () => request.destroy(new Error('late')));
    request.on('error', fail);
  });

interface Proxy {
  readonly port: number;
  readonly seen: { readonly output: string };
}

function startHaproxy(world: World): Proxy {
  const port = 8090;
  writeFileSync(
    join(world.host.folder, 'haproxy.cfg'),
    `global
  maxconn 100
defaults
  mode http
  timeout connect 1s
  timeout client 2s
  timeout server 2s
resolvers here
  nameserver holdfast 127.0.0.1:53
  accepted_payload_size 1232
  resolve_retries 3
  timeout resolve 500ms
  timeout retry 500ms
  hold valid 500ms
  hold obsolete 500ms
frontend in
  bind 127.0.0.1:${port}
  default_backend sites
backend sites
  balance roundrobin
  server-template site 4 _site._tcp.svc.test resolvers here resolve-prefer ipv4 check inter 200ms rise 1 init-addr none
`,
  );
  return { port, seen: world.spawn('haproxy', ['-db', '-f', 'haproxy.cfg']) };
}

/** Both sites are reached through it. */
async function both(t: Test, _world: World, { port, seen }: Proxy): Promise<void> {
  const found = new Set<string>();
  await until('both sites', async () => {
    found.add(await fetched(port));
    return found.has('200 one') && found.has('200 two');
  }).catch((error) => t.fail(`${error.message}: ${[...found]}\n${seen.output}`));
  const now = new Set<string>();
  for (let i = 0; i < 8; i++) now.add(await fetched(port));
  t.same([...now].sort(), ['200 one', '200 two']);
}

function startNginx(world: World): Proxy {
  const port = 8092;
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path tmp-${name};`,
  );
  const { folder } = world.host;
  writeFileSync(
    join(folder, 'nginx.conf'),
    `user root; daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr; events {}
http {
  access_log off; ${temporary.join(' ')}
  resolver 127.0.0.1 valid=1s; resolver_timeout 3s;
  server {
    listen 127.0.0.1:${port};
    location / { set $site site.svc.test; proxy_pass http://$site:${world.sites[0]!.port}; }
  }
}
`,
  );
  return { port, seen: world.spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')]) };
}

async function one(t: Test, world: World, { port, seen }: Proxy): Promise<void> {
  const want = `200 ${world.sites[0]!.name}`;
  await until('the site', async () => (await fetched(port)) === want).catch((error) =>
    t.fail(`${error.message}\n${seen.output}`),
  );
  t.equal(await fetched(port), want);
}
