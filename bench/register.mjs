/**
 * `npm run bench:register`: what a registrar costs. The time before the command runs, beside the same command alone,
 * and the memory of the registrar, beside a Node process that does nothing.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { median, ms } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { load, root, which } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const options = new Command('bench:register')
  .description('what a registrar costs')
  .option('--rounds <n>', 'starts with each shell', Number, 15)
  .option('--settle <seconds>', 'how long a registrar runs before its memory is read', Number, 8)
  .parse()
  .opts();

const WRAPPER = join(root, 'bin', 'holdfast');
const SHELLS = [['dash'], ['busybox', 'sh'], ['bash']].filter(([name]) => which(name) !== undefined);
/** Says when it runs. */
const COMMAND = ['date', '+%s%N'];
const MOST_MS = 20;
const MOST_MB = 30;

await atWorkbench(async (bench) => {
  const place = configure(bench, 'one', '{ type: file, path: reg }');
  const plain = [];
  const wrapped = new Map(SHELLS.map((shell) => [shell, []]));
  for (let round = 0; round < options.rounds; round++) {
    plain.push(await untilItRuns(COMMAND, place));
    for (const [shell, times] of wrapped) {
      const register = ['register', '--name', 'web', '--port', '8080', '-c', 'holdfast.yaml', '--'];
      times.push(await untilItRuns([...shell, WRAPPER, ...register, ...COMMAND], place));
      while (registrars(place).length > 0) await sleep(20);
    }
    say(`start ${round + 1} of ${options.rounds}, load ${load()}`);
  }

  const etcd = await fakeEtcd();
  const inEtcd = configure(bench, 'etcd', `{ type: etcd, layout: plain, endpoints: ["${etcd.origin}"] }`);
  const many = configure(bench, 'many', '{ type: file, path: reg }', 100);
  const one = ['register', '--name', 'web', '--port', '8080', '--ttl', '3s', '-c', 'holdfast.yaml'];
  const check = ['--check', '{"type": "http", "interval": "500ms", "timeout": "100ms"}'];
  const memory = [];
  const settings = [
    ['`node -e` that waits', process.execPath, ['-e', 'setInterval(() => {}, 1000)'], place],
    ['a registrar of one service, file', WRAPPER, one, place],
    ['of one service, etcd', WRAPPER, one, inEtcd],
    ['of one service with an HTTP check, etcd', WRAPPER, [...one, ...check], inEtcd],
    ['of 100 services, file', WRAPPER, ['register', '-c', 'holdfast.yaml'], many],
  ];
  for (const [title, command, args, cwd] of settings) {
    const program = bench.start(command, args, { cwd });
    await sleep(options.settle * 1000);
    memory.push([title, residentMb(program.pid)]);
    await program.stop();
    say(`${title}: ${memory.at(-1)[1].toFixed(1)} MB`);
  }
  etcd.close();

  const bare = memory[0][1];
  const extra = (times) => median(times) - median(plain);
  const facts = [
    `medians of ${options.rounds} starts in turns; memory ${options.settle} s after the start, sign of life each second`,
  ];
  const row = (title, times) => [title, ms(median(times)), ms(Math.min(...times)), ms(Math.max(...times))];
  writeSection('register', 'Registrar', 'npm run bench:register', facts, [
    ...table(
      ['from the start to the first instruction of the command', 'median ms', 'least', 'most'],
      [
        row('the command alone', plain),
        ...[...wrapped].map(([shell, times]) => row(`with a registrar, ${shell.join(' ')}`, times)),
      ],
    ),
    '',
    ...table(
      ['resident memory', 'MB', "over Node's own"],
      memory.map(([title, mb]) => [title, mb.toFixed(1), (mb - bare).toFixed(1)]),
    ),
    '',
    ...[...wrapped].map(([shell, times]) =>
      goal(`before the command runs, ${shell.join(' ')}, ms`, extra(times), MOST_MS, ms),
    ),
    goal("the most memory over Node's own, MB", Math.max(...memory.map(([, mb]) => mb - bare)), MOST_MB, (mb) =>
      mb.toFixed(1),
    ),
  ]);
});

/** A folder with a configuration, and files of `count` services. */
function configure(bench, name, registry, count = 0) {
  const folder = bench.folder(name);
  bench.folder(`${name}/reg`);
  bench.folder(`${name}/register.d`);
  const zone = `zones:\n  - { name: svc.internal, registry: ${registry} }\n`;
  writeFileSync(join(folder, 'holdfast.yaml'), `version: 1\nstateDir: state\nrunDir: run\n${zone}`);
  for (let i = 0; i < count; i++) {
    writeFileSync(join(folder, 'register.d', `${i}.yaml`), `name: web-${i}\nport: ${8000 + i}\nttl: 3s\n`);
  }
  return folder;
}

/** Milliseconds from before the start of `words` to what their command prints. */
async function untilItRuns([program, ...args], cwd) {
  const began = performance.timeOrigin + performance.now();
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
  let said = '';
  for await (const chunk of child.stdout) said += chunk;
  return Number(said) / 1e6 - began;
}

function registrars(folder) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return words.includes('--detached') && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder);
      } catch {
        return false;
      }
    });
}

function residentMb(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
}

/** Answers as etcd does, as far as a registrar asks: this is no measure of etcd. */
async function fakeEtcd() {
  let held;
  const answers = {
    '/v3/kv/range': () => (held === undefined ? {} : { kvs: [held] }),
    '/v3/lease/grant': () => ({ ID: '7', TTL: '3' }),
    '/v3/lease/keepalive': () => ({ result: { ID: '7', TTL: '3' } }),
    '/v3/kv/txn': ({ success }) => {
      held = { ...success[0].request_put, mod_revision: '2' };
      return { succeeded: true };
    },
    '/v3/lease/revoke': () => ({}),
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    response.end(JSON.stringify(answers[request.url]?.(JSON.parse(body)) ?? {}));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
