/** `holdfast register` as a service sees it: the wrapper, the registrar behind it, the daemon, whatever is in the way. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { root } from '../root.js';
import { Backend, freePort, Host, until } from './program.js';

// Stories wait more than they work: they run side by side.
t.jobs = 6;
t.setTimeout(120_000);

const WRAPPER = join(root, 'bin', 'holdfast');
/** What is on the PATH, by its whole path. */
function which(name: string): string {
  return spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim();
}

const SHELLS = [['dash'], ['busybox', 'sh'], ['bash']].flatMap(([name = '', ...args]) => {
  const path = which(name);
  if (path !== '') return [[path, ...args]];
  console.error(`skipped: the wrapper of holdfast register run by ${name} (there is none here)`);
  return [];
});
if (process.platform !== 'linux') {
  console.error('skipped: the wrapper of holdfast register (its stories look into /proc)');
  process.exit(0);
}

interface Endpoint {
  readonly port: number;
  readonly state: string;
  readonly address: string;
}

/** A folder with a configuration whose registry is a directory of files, and the processes that were started in it. */
class Place {
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-'));
  readonly registry = join(this.folder, 'reg');
  readonly config = join(this.folder, 'holdfast.yaml');
  readonly #started: ChildProcess[] = [];

  constructor(t: Test, registry = '{ type: file, path: reg }') {
    mkdirSync(this.registry);
    this.configure(registry);
    t.teardown(() => this.dispose());
  }

  configure(registry: string): void {
    const lines = [
      'version: 1',
      'stateDir: state',
      'runDir: run',
      'zones:',
      `  - { name: svc.test, registry: ${registry} }`,
    ];
    writeFileSync(this.config, `${lines.join('\n')}\n`);
  }

  /** The wrapper with these words; a shell in front, or as its first line has it. */
  start(
    words: readonly string[],
    options: { shell?: readonly string[]; env?: NodeJS.ProcessEnv; more?: number } = {},
  ): ChildProcess {
    const [program = '', ...args] = [...(options.shell ?? []), WRAPPER, ...words];
    const stdio = ['ignore' as const, ...Array.from({ length: 2 + (options.more ?? 0) }, () => 'pipe' as const)];
    const child = spawn(program, args, { cwd: this.folder, env: options.env ?? process.env, stdio });
    this.#started.push(child);
    return child;
  }

  register(
    command: readonly string[],
    more: readonly string[] = [],
    options: Parameters<Place['start']>[1] = {},
  ): ChildProcess {
    const web = ['register', '--name', 'web', '--port', '8080', '--id', 'web-1', '--ttl', '3s', '-c', this.config];
    return this.start([...web, ...more, '--', ...command], options);
  }

  /** What the registry's directory has of a service. */
  endpoint(id = 'web-1', service = 'web'): Endpoint | undefined {
    const path = join(this.registry, `registered-${service}.${id}.json`);
    if (!existsSync(path)) return undefined;
    return JSON.parse(readFileSync(path, 'utf8')).services[service].endpoints[0];
  }

  registered(): Promise<Endpoint> {
    return until('registered', () => this.endpoint() ?? false);
  }

  removed(): Promise<true> {
    return until('removed', () => this.endpoint() === undefined);
  }

  /** The process of a registrar, by its status. */
  async registrar(): Promise<number> {
    const folder = join(this.folder, 'run', 'register');
    return until('a status', () => {
      const name = readdirSync(folder).find((file) => file.endsWith('.json'));
      return name === undefined ? false : Number(name.slice(0, -5));
    });
  }

  log(name = 'web'): string {
    return readFileSync(join(this.folder, 'run', 'register', `${name}.log`), 'utf8');
  }

  async dispose(): Promise<void> {
    for (const child of this.#started) child.kill('SIGKILL');
    await until('no registrar left', () => registrarsOf(this.folder).length === 0);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Processes whose command line names the folder, and are registrars. */
function registrarsOf(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return words.includes('--detached') && words.includes(folder);
      } catch {
        return false;
      }
    })
    .map(Number);
}

async function output(child: ChildProcess): Promise<{ code: number | null; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk) => (stdout += chunk));
  child.stderr?.on('data', (chunk) => (stderr += chunk));
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

const shellName = (shell: readonly string[]) => shell.join(' ').replace(/^.*\//, '');
const SHOW = 'for w; do printf "<%s>" "$w"; done; echo; echo $$; env';
const WORDS = ['a b', '"q"', "it's", 'two\nlines', '', '--', '-- x', '*', '$HOME', '\\', '--name'];

for (const shell of SHELLS) {
  t.test(`${shellName(shell)}: the command gets its words, this process's number, and the environment`, async (t) => {
    const place = new Place(t);
    const env = {
      PATH: process.env.PATH,
      name: 'kept',
      port: 'kept',
      word: 'kept',
      node: 'kept',
      place: 'kept',
      count: '1',
    };
    const child = place.register(['sh', '-c', SHOW, 'sh', ...WORDS], [], { shell, env });
    const { code, stdout, stderr } = await output(child);
    t.equal(code, 0);
    t.equal(stderr, '');
    const shown = WORDS.map((word) => `<${word}>`).join('');
    t.equal(stdout.slice(0, shown.length), shown);
    const [pid, ...variables] = stdout
      .slice(shown.length + 1)
      .trimEnd()
      .split('\n');
    t.equal(Number(pid), child.pid);
    // Others are told by shells, or by tap.
    t.same(
      variables.filter((line) => Object.keys(env).includes(line.split('=')[0]!)).sort(),
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}`)
        .sort(),
    );
  });

  t.test(`${shellName(shell)}: exit codes and signals are the command's own`, async (t) => {
    const place = new Place(t);
    t.equal((await output(place.register(['sh', '-c', 'exit 7'], [], { shell }))).code, 7);
    t.equal((await output(place.register(['no-such-program'], [], { shell }))).code, 127);
    t.equal((await output(place.register([place.config], [], { shell }))).code, 126);
    const child = place.register(['sh', '-c', 'trap "exit 42" TERM; echo ready; while :; do sleep 0.05; done'], [], {
      shell,
    });
    await once(child.stdout!, 'data');
    child.kill('SIGTERM');
    t.equal((await output(child)).code, 42);
    const killed = place.register(['sleep', '60'], [], { shell });
    await place.registered();
    killed.kill('SIGKILL');
    await once(killed, 'close');
    t.equal(killed.signalCode, 'SIGKILL');
    await place.removed();
  });

  t.test(`${shellName(shell)}: whatever is wrong with the registrar, the command runs`, async (t) => {
    const place = new Place(t);
    const echo = ['echo', 'served'];
    const run = (words: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
      output(place.start(['register', ...words], { shell, env }));
    t.match(await run(['--name', 'web', '--', ...echo]), {
      code: 0,
      stdout: 'served\n',
      stderr: /no --port: NOT REGISTERED/,
    });
    t.match(await run(['--', ...echo]), { code: 0, stdout: 'served\n', stderr: /no --name/ });
    t.match(await run(['--nmae', 'web', '--', ...echo]), {
      code: 0,
      stdout: 'served\n',
      stderr: /unknown option --nmae/,
    });
    t.match(await run(['--name', 'web', '--port', '80a', '--', ...echo]), {
      code: 0,
      stdout: 'served\n',
      stderr: /--port: expected a whole number from 1 to 65535, got "80a": NOT REGISTERED/,
    });
    t.match(await run(['--name', 'web', '--port', '80', '--']), { code: 2, stdout: '', stderr: /no command/ });
    const bin = join(place.folder, 'bin');
    mkdirSync(bin);
    for (const name of ['echo', 'sh', 'readlink']) symlinkSync(which(name), join(bin, name));
    const good = ['--name', 'web', '--port', '80', '-c', place.config, '--', ...echo];
    t.match(await run(good, { PATH: bin }), { code: 0, stdout: 'served\n', stderr: /no node on the PATH/ });
    t.match(await run(good, { PATH: process.env.PATH, HOLDFAST_NODE: '/bin/false' }), {
      code: 0,
      stdout: 'served\n',
      stderr: '',
    });
    const none = ['--name', 'web', '--port', '80', '-c', '/none.yaml', '--', ...echo];
    t.match(await run(none, { PATH: process.env.PATH }), { code: 0, stdout: 'served\n', stderr: '' });
  });
}

t.test('the registrar is apart from the command: session, parent, descriptors, folder', async (t) => {
  const place = new Place(t);
  const child = place.register(['sleep', '60'], [], { more: 40 });
  await place.registered();
  const pid = await place.registrar();
  const stat = (of: number) =>
    readFileSync(`/proc/${of}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
  const [, , group, session] = stat(pid);
  const [, , ownGroup, ownSession] = stat(child.pid!);
  t.not(session, ownSession);
  t.not(group, ownGroup);
  t.equal(
    readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'),
    '',
    'the command has no child that it does not know',
  );
  const inherited = new Set(
    readdirSync(`/proc/${child.pid}/fd`)
      .map((fd) => readlinkSync(`/proc/${child.pid}/fd/${fd}`))
      .filter((link) => !link.startsWith('/dev/null')),
  );
  t.ok(inherited.size > 40, `${inherited.size} descriptors`);
  for (const one of registrarsOf(place.folder)) {
    const links = readdirSync(`/proc/${one}/fd`).map((fd) => readlinkSync(`/proc/${one}/fd/${fd}`));
    t.same(
      links.filter((link) => inherited.has(link)),
      [],
    );
    t.equal(readlinkSync(`/proc/${one}/cwd`), '/');
  }
});

t.test("what the environment has for the command's Node is not for the registrar's", async (t) => {
  const place = new Place(t);
  const port = await freePort();
  const options = `--inspect=127.0.0.1:${port} --require ./only-there.cjs`;
  const env = { ...process.env, NODE_OPTIONS: options, NODE_CHANNEL_FD: '3', NODE_UNIQUE_ID: '1' };
  const child = place.register(
    ['sh', '-c', 'echo "$NODE_OPTIONS $NODE_CHANNEL_FD $NODE_UNIQUE_ID"; exec sleep 60'],
    [],
    { env },
  );
  let said = '';
  child.stdout?.on('data', (chunk) => (said += chunk));
  await place.registered();
  for (const pid of registrarsOf(place.folder)) {
    t.notMatch(readFileSync(`/proc/${pid}/environ`, 'latin1'), /NODE_OPTIONS|NODE_CHANNEL|NODE_UNIQUE/);
  }
  await until('the command has them', () => /only-there.* 3 1\n/.test(said));
});

t.test('without setsid, and with a name that leads through links', async (t) => {
  const place = new Place(t);
  const bin = join(place.folder, 'bin');
  mkdirSync(bin);
  for (const name of ['sleep', 'sh', 'readlink', 'node']) symlinkSync(which(name), join(bin, name));
  symlinkSync(WRAPPER, join(bin, 'far'));
  symlinkSync('far', join(bin, 'holdfast'));
  const words = ['--name', 'web', '--port', '8080', '--id', 'web-1', '-c', 'holdfast.yaml', '--', 'sleep', '60'];
  const child = spawn('sh', [join(bin, 'holdfast'), 'register', ...words], {
    cwd: place.folder,
    env: { PATH: bin },
    stdio: 'ignore',
  });
  t.teardown(() => child.kill('SIGKILL'));
  await place.registered();
  const pid = await place.registrar();
  const [, , , session] = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  t.not(Number(session), child.pid);
  child.kill('SIGTERM');
  await place.removed();
});

t.test('a registrar that is killed is started again; one that is stopped removes and stays away', async (t) => {
  const place = new Place(t);
  const child = place.register(['sleep', '60']);
  await place.registered();
  const first = await place.registrar();
  process.kill(first, 'SIGKILL');
  rmSync(join(place.registry, 'registered-web.web-1.json'));
  await place.registered();
  t.equal(child.exitCode ?? child.signalCode, null);
  const second = await until('its successor', async () => {
    const pid = await place.registrar();
    return pid === first ? false : pid;
  });
  process.kill(second, 'SIGTERM');
  await place.removed();
  await until('none is left', () => registrarsOf(place.folder).length === 0);
  t.equal(child.exitCode ?? child.signalCode, null, 'the command goes on');
});

t.test('nowhere to write to, and no HOME: the command runs, and is registered', async (t) => {
  const place = new Place(t);
  const config = readFileSync(place.config, 'utf8')
    .replace('runDir: run', 'runDir: /proc/none')
    .replace('stateDir: state', 'stateDir: /proc/none');
  writeFileSync(place.config, config);
  const child = place.register(['sleep', '60'], [], { env: { PATH: process.env.PATH, TMPDIR: '/proc/none' } });
  await place.registered();
  child.kill('SIGKILL');
  await place.removed();
});

t.test('a registry that is absent, then mute: the service starts, and is registered when it can be', async (t) => {
  const place = new Place(t);
  rmSync(place.registry, { recursive: true });
  const child = place.register(['sh', '-c', 'echo served; exec sleep 60']);
  const [said] = await once(child.stdout!, 'data');
  t.equal(String(said), 'served\n');
  await until('said', () => /"event":"not-registered".*no such file or directory/.test(place.log()));
  mkdirSync(place.registry);
  await place.registered();

  const mute = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(mute, 'listening');
  t.teardown(() => {
    mute.close();
    mute.closeAllConnections();
  });
  const { port } = mute.address() as { port: number };
  const other = new Place(t, `{ type: etcd, layout: plain, endpoints: ["http://127.0.0.1:${port}"] }`);
  const second = other.register(['sh', '-c', 'echo served; exec sleep 60']);
  const [again] = await once(second.stdout!, 'data');
  t.equal(String(again), 'served\n');
  await until('said', () => /"event":"not-registered".*within/.test(other.log()));
  second.kill('SIGTERM');
  await once(second, 'close');
  await until('its registrar does not wait for it', () => registrarsOf(other.folder).length === 0);
});

t.test('a configuration that is bad, and is mended: registered then', async (t) => {
  const place = new Place(t);
  writeFileSync(place.config, 'version: 1\nzones: [\n');
  place.register(['sleep', '60'], [], { env: { ...process.env, XDG_RUNTIME_DIR: place.folder } });
  await until('tried', () => registrarsOf(place.folder).length > 0);
  await new Promise((done) => setTimeout(done, 500));
  place.configure('{ type: file, path: reg }');
  await place.registered();
});

t.test('--when-healthy registers what answers; --drain marks before it removes', async (t) => {
  const place = new Place(t);
  const backend = new Backend();
  backend.port = await freePort();
  const check = JSON.stringify({
    type: 'tcp',
    port: backend.port,
    interval: '100ms',
    timeout: '100ms',
    rise: 1,
    fall: 2,
  });
  const child = place.register(
    ['sleep', '60'],
    ['--address', '127.0.0.1', '--check', check, '--when-healthy', '--drain', '1s'],
  );
  await until('checked', () => /"event":"check-fails"/.test(place.log()));
  t.equal(place.endpoint(), undefined);
  await backend.open();
  t.match(await place.registered(), { state: 'passing', address: '127.0.0.1', port: 8080 });
  await backend.close();
  await place.removed();
  await backend.open();
  await place.registered();
  process.kill(await place.registrar(), 'SIGTERM');
  await until('draining', () => place.endpoint()?.state === 'draining');
  await place.removed();
  t.equal(child.exitCode ?? child.signalCode, null);
  await backend.close();
});

t.test('a check without --when-healthy is told as a state', async (t) => {
  const place = new Place(t);
  const check = JSON.stringify({
    type: 'exec',
    command: ['test', '-e', join(place.folder, 'well')],
    interval: '100ms',
    timeout: '100ms',
    rise: 1,
    fall: 1,
  });
  place.register(['sleep', '60'], ['--address', '127.0.0.1', '--check', check]);
  await until('critical', () => place.endpoint()?.state === 'critical');
  writeFileSync(join(place.folder, 'well'), '');
  await until('passing', () => place.endpoint()?.state === 'passing');
});

t.test('the daemon follows its directory; a broken file changes nothing', async (t) => {
  const host = new Host();
  t.teardown(() => host.dispose());
  const registry = join(host.folder, 'reg');
  const files = join(host.folder, 'register.d');
  mkdirSync(registry);
  mkdirSync(files);
  host.port = await freePort();
  const zone = `zones:\n  - { name: svc.test, registry: { type: file, path: reg }, check: { type: none } }\n`;
  writeFileSync(host.config, `version: 1\nlisten: ["127.0.0.1:${host.port}"]\nstateDir: state\nrunDir: run\n${zone}`);
  const put = (name: string, text: string) => writeFileSync(join(files, name), text);
  const has = (id: string) => existsSync(join(registry, `registered-web.${id}.json`));
  put('one.yaml', 'name: web\nid: web-1\nport: 81\naddress: 127.0.0.1\nttl: 3s\n');
  put('two.yaml', 'name: web\nid: web-2\nport: 82\naddress: 127.0.0.1\nttl: 3s\ntags: [blue]\n');
  put('bad.yaml', 'name: web\nport: 99999\n');
  const daemon = host.run('register', '--config', host.config);
  await until('both', () => has('web-1') && has('web-2'));
  await daemon.said('registration-refused');
  t.match(daemon.output, /bad\.yaml:2: port: expected a whole number from 1 to 65535/);

  const resolver = await host.serve();
  await until('answered', async () => (await host.ports('web')).length === 2);
  t.same(await host.ports('web'), [81, 82]);
  t.same(await host.ports('blue.web'), [82]);

  const status = host.command('status');
  t.match(status.stdout, /web-1/);
  t.match(status.stdout, /registered/);
  t.match(status.stdout, /bad\.yaml:2/);
  t.match(host.json<object>('status'), {
    registrars: [{ registrations: [{ id: 'web-1', state: 'registered' }, { id: 'web-2' }] }],
  });

  const metrics = join(host.folder, 'run', 'register', `${daemon.child.pid}.prom`);
  t.match(readFileSync(metrics, 'utf8'), /^holdfast_registration_state\{.*id="web-1".*state="registered"\} 1$/m);
  t.match(readFileSync(metrics, 'utf8'), /^holdfast_registrar_problems\{pid="\d+"\} 1$/m);

  put('one.yaml', 'name: web\nid: web-1\nport: 8');
  put('three.yaml', 'name: web\nid: web-3\nport: 83\naddress: 127.0.0.1\nttl: 3s\n');
  await until('the new one', () => has('web-3'));
  put('one.yaml', 'name: [');
  await until('said', () => /one\.yaml:1: .*its last good contents stand/.test(daemon.output));
  t.ok(has('web-1'));
  put('one.yaml', 'name: web\nid: web-1\nport: 91\naddress: 127.0.0.1\nttl: 3s\n');
  rmSync(join(files, 'two.yaml'));
  await until(
    'changed',
    async () => (await host.ports('web')).join() === '83,91' || (await host.ports('web')).join() === '8,83,91',
  );
  await until('removed', () => !has('web-2'));
  writeFileSync(host.config, 'version: 1\n');
  await until('said', () => /zones: missing/.test(daemon.output));
  t.ok(has('web-1') && has('web-3'), 'a broken configuration changes nothing');

  daemon.kill('SIGTERM');
  t.equal(await daemon.ended, 0);
  t.notOk(has('web-1') || has('web-3') || existsSync(metrics));
  resolver.kill('SIGTERM');
  await resolver.ended;
});

t.test('the folder that a daemon was started in is removed: it goes on reading its files', async (t) => {
  const place = new Place(t);
  const files = join(place.folder, 'register.d');
  const start = join(place.folder, 'start');
  for (const folder of [files, start]) mkdirSync(folder);
  const put = (id: string) =>
    writeFileSync(join(files, `${id}.yaml`), `name: web\nid: ${id}\nport: 81\naddress: 127.0.0.1\nttl: 3s\n`);
  put('web-1');
  const program = join(root, 'bin', 'holdfast.js');
  const daemon = spawn(process.execPath, [program, 'register', '-c', place.config], { cwd: start, stdio: 'ignore' });
  t.teardown(() => daemon.kill('SIGKILL'));
  await place.registered();
  rmSync(start, { recursive: true });
  put('web-2');
  await until('the new one', () => place.endpoint('web-2') !== undefined);
});

t.test('wrong use ends with 2 and says what is wrong', async (t) => {
  const place = new Place(t);
  chmodSync(place.folder, 0o755);
  const run = async (...words: string[]) => output(place.start(['register', '-c', place.config, ...words]));
  t.match(await run(), { code: 2, stderr: /register\.d: no such file or directory/ });
  t.match(await run('--name', 'web'), { code: 2, stderr: /--port: missing/ });
  t.match(await run('--name', 'web', '--port', '80', '--pid', 'x'), { code: 2, stderr: /number of a process/ });
  t.match(await run('--name', 'web', '--port', '80', '--pid', '999999999'), {
    code: 2,
    stderr: /no process 999999999/,
  });
  t.match(await run('--nmae', 'web'), { code: 2, stderr: /unknown option/ });
  const direct = spawnSync(
    process.execPath,
    [`${WRAPPER}.js`, 'register', '--name', 'web', '--port', '80', '--', 'true'],
    { encoding: 'utf8' },
  );
  t.match(direct, { status: 2, stderr: /needs the launcher bin\/holdfast/ });
  const help = spawnSync(WRAPPER, ['register', '--help'], { encoding: 'utf8' });
  t.equal(help.status, 0);
  // What the wrapper takes for an option is what the program has.
  const known = [...help.stdout.matchAll(/^ {2}(?:-c, )?(--[a-z-]+)/gm)].map((match) => match[1]!);
  const script = readFileSync(WRAPPER, 'utf8');
  t.same(
    known.filter((option) => !['--help', '--pid'].includes(option) && !new RegExp(`[ |]${option}[ |)=]`).test(script)),
    [],
  );
});
