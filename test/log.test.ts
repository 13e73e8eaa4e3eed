/** What is written for the journal, and for people. */

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openLog } from '../src/system/log.js';
import { FloodGate } from '../src/system/log-flood.js';
import { age, plain, styleFor, table } from '../src/system/terminal.js';

t.test('the log: levels, secrets, what waits, the journal', async (t) => {
  const dir = t.testdir();
  const written = (
    name: string,
    env: (fd: number) => NodeJS.ProcessEnv,
    use: (log: ReturnType<typeof openLog>) => void,
  ) => {
    const fd = openSync(join(dir, name), 'w');
    let now = 0;
    const log = openLog({ level: 'info', name: 'resolver', fd, env: env(fd), now: () => now++ });
    use(log);
    log.close();
    closeSync(fd);
    return readFileSync(join(dir, name), 'utf8').trimEnd().split('\n');
  };
  const lines = written(
    'plain',
    () => ({}),
    ({ log, setLevel }) => {
      log('debug', 'never');
      log('info', 'zone-heard', { zone: 'a.b', registry: { token: 't0p', url: 'http://x' }, error: new Error('boom') });
      setLevel('debug');
      log('debug', 'now');
    },
  );
  const parsed = lines.map((line) => JSON.parse(line));
  t.match(parsed, [
    {
      level: 'info',
      name: 'resolver',
      pid: process.pid,
      event: 'zone-heard',
      zone: 'a.b',
      registry: { token: '[redacted]', url: 'http://x' },
      error: 'boom',
    },
    { level: 'debug', event: 'now' },
  ]);
  t.match(parsed[0].time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

  const journal = (fd: number) => ({ JOURNAL_STREAM: `${fstatSync(fd).dev}:${fstatSync(fd).ino}` });
  t.same(
    written('journal', journal, ({ log }) => {
      log('error', 'bad', { n: 1 });
      log('warn', 'odd');
      log('info', 'fine');
    }),
    [
      '<3>{"level":"error","event":"bad","n":1}',
      '<4>{"level":"warn","event":"odd"}',
      '<6>{"level":"info","event":"fine"}',
    ],
  );
  const elsewhere = written(
    'elsewhere',
    () => ({ JOURNAL_STREAM: '1:2' }),
    ({ log }) => log('info', 'fine'),
  );
  t.equal(elsewhere[0]?.[0], '{', 'output that was sent elsewhere is not the journal');

  const flood = written(
    'flood',
    () => ({}),
    ({ log }) => {
      for (let i = 0; i < 5000; i++) log('warn', 'again', { zone: i % 2 === 0 ? 'a' : 'b' });
      log('info', 'other');
    },
  ).map((line) => JSON.parse(line));
  t.equal(flood.length, 23, 'ten lines a zone, the other event, and a sum for each zone');
  t.match(flood.slice(-2), [
    { event: 'log-suppressed', of: 'again a', lines: 2490 },
    { event: 'log-suppressed', of: 'again b', lines: 2490 },
  ]);
});

t.test('the gate lets an event speak again when its minute is over', async (t) => {
  const gate = new FloodGate();
  const admitted = (now: number, times: number) =>
    Array.from({ length: times }, () => gate.admit('e', now)).filter(Boolean).length;
  t.equal(admitted(0, 25), 10);
  t.same(gate.collect(59_999), []);
  t.equal(admitted(59_999, 5), 0);
  t.same(gate.collect(60_000), [{ key: 'e', count: 20 }]);
  t.equal(gate.pending, false);
  t.equal(admitted(60_001, 3), 3);
  t.same(gate.collect(200_000), [], 'nothing was left out of these');
  const many = new FloodGate();
  t.equal(
    Array.from({ length: 3000 }, (_, i) => many.admit(`e${i}`, 0)).filter(Boolean).length,
    1000,
    'memory is bounded',
  );
});

t.test('what people read is aligned, coloured only for them, and cannot drive their terminal', async (t) => {
  const colored = styleFor({ isTTY: true }, {});
  t.equal(colored.good('ok'), '\x1b[32mok\x1b[0m');
  for (const [stream, env] of [
    [{ isTTY: true }, { NO_COLOR: '1' }],
    [{ isTTY: true }, { TERM: 'dumb' }],
    [{}, {}],
  ] as const) {
    t.equal(styleFor(stream, env).good('ok'), 'ok');
  }
  t.equal(
    table([
      ['a', 'b'],
      [colored.good('long'), 'c'],
    ]),
    'a     b\n\x1b[32mlong\x1b[0m  c',
  );
  t.same([undefined, 0, 900, 119_000, 7_000_000, 100_000_000, 400_000_000].map(age), [
    '-',
    '0ms',
    '900ms',
    '119s',
    '116m',
    '27h 46m',
    '4d 15h',
  ]);
  t.equal(plain('a\x1b[31m\nb\x9b'), 'a?[31m?b?');
});
