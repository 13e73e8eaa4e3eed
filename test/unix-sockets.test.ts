import { spawnSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { askControl } from '../src/ask/control.js';
import { listenUnix } from '../src/system/unix-socket.js';
import { socketPath, startProber } from './prober-fixture.js';

t.test('Unix sockets', async (t) => {
  await t.test('the mode is set, a stale file is replaced, a living one and a foreign file are not', async (t) => {
    const path = socketPath();
    const first = createServer((socket) => socket.on('error', () => {}).end('first'));
    const listener = await listenUnix(first, path, { mode: 0o660 });
    t.equal(lstatSync(path).mode & 0o777, 0o660);
    t.same(readdirSync(join(path, '..')), ['prober.sock']);
    await t.rejects(listenUnix(createServer(), path, { mode: 0o660 }), {
      message: `${path} is in use by process ${process.pid}: stop it, or set another runDir`,
    });
    t.match(String(await once(connect(path), 'data')), 'first', 'and it still answers');

    const dead = socketPath();
    const child = spawnSync(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(dead)}, () => process.kill(process.pid, 'SIGKILL'))`,
    ]);
    t.equal(child.signal, 'SIGKILL');
    t.ok(existsSync(dead), 'a dead process left its file');
    const next = await listenUnix(createServer(), dead, { mode: 0o600 });
    await next.close();
    t.notOk(existsSync(dead), 'removed at the end');

    const file = socketPath();
    writeFileSync(file, 'precious');
    await t.rejects(listenUnix(createServer(), file, { mode: 0o600 }), /exists and is not a socket: move it away/);
    t.equal(readFileSync(file, 'utf8'), 'precious');
    await t.rejects(listenUnix(createServer(), `/tmp/${'x'.repeat(120)}`, { mode: 0o600 }), /at most 107 bytes/);
    await listener.close();
  });

  await t.test('a folder in a place that everybody may write to is one’s own, or is not used', async (t) => {
    const shared = mkdtempSync(join(tmpdir(), 'holdfast-'));
    chmodSync(shared, 0o1777);
    t.teardown(() => rmSync(shared, { recursive: true }));
    const folder = join(shared, 'run');
    const path = join(folder, 'control.sock');
    const answering = createHttpServer((_request, response) => response.end('{}'));
    const own = await listenUnix(answering, path, { mode: 0o660 });
    t.equal(lstatSync(folder).mode & 0o777, 0o700);
    t.same(await askControl(folder, '/v1/status'), { kind: 'answer', body: {}, from: 'control' });
    await own.close();

    const asked = new EventEmitter();
    const refused = async (message: string): Promise<void> => {
      const fault = { fault: 'foreign-folder', message };
      await t.rejects(listenUnix(createServer(), path, { mode: 0o660 }), fault);
      t.same(await askControl(folder, '/v1/status'), { kind: 'failed', error: message });
    };
    chmodSync(folder, 0o770);
    const advice = 'set runDir or XDG_RUNTIME_DIR';
    await refused(`${folder} may be written to by others than its owner: chmod 700 it, or ${advice}`);
    chmodSync(folder, 0o755);
    if (process.getuid?.() === 0) {
      chownSync(folder, 65_534, 65_534);
      await refused(`${folder} belongs to user 65534, not to this one: ${advice}`);
    }
    const away = once(asked, 'away');
    startProber(t, join(folder, 'prober.sock'), {
      log: (_level, event, { reason }) => event === 'resolver-away' && asked.emit('away', reason),
    });
    t.match((await away)[0], /belongs to user|may be written to/, 'the prober does not ask there either');
    rmSync(folder, { recursive: true });
    symlinkSync(tmpdir(), folder);
    await refused(`${folder} is not a folder: remove it, or ${advice}`);
    rmSync(folder);
    t.match(await askControl(folder, '/v1/status'), { kind: 'not-running' });
  });

  await t.test('at the end another’s file is left alone, and a missing directory is made', async (t) => {
    const path = join(socketPath(), 'deeper', 'x.sock');
    const ours = await listenUnix(createServer(), path, { mode: 0o660, directoryMode: 0o750 });
    t.equal(lstatSync(join(path, '..')).mode & 0o777, 0o750);
    renameSync(path, `${path}.old`);
    const theirs = createServer();
    theirs.listen(path);
    await once(theirs, 'listening');
    await ours.close();
    t.ok(existsSync(path));
    theirs.close();
  });
});
