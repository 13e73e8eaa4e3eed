/** The real program after deaths: of what native calls may have been the cause, and right after a person's word. */
import { join } from 'node:path';
import t from 'tap';
import type { StatusDocument } from '../../src/admin/documents.js';
import { askControl } from '../../src/ask/control.js';
import { loadNativeCalls } from '../../src/prober/probes/native-sockets.js';
import { loadLinuxCalls } from '../../src/server/linux-calls.js';
import { Backend, freePort, Host, until, ZONE } from './program.js';

t.setTimeout(120_000);

const calls = process.platform === 'linux' ? loadLinuxCalls() : 'not Linux';
const skip = typeof calls === 'string' ? `no batched transport here: ${calls}` : false;

t.test('two deaths by a signal soon after a start: the next start uses the portable transport', { skip }, async (t) => {
  const one = new Host();
  const backend = await new Backend().open();
  t.teardown(async () => {
    await one.dispose();
    await backend.close();
  });
  one.port = await freePort();
  one.configure();
  one.list({ orders: [backend.port] });
  for (const death of ['first', 'second']) {
    const resolver = await one.serve();
    if (death === 'first') await resolver.said('zone-synced');
    t.equal(transport(resolver), 'batched', `batched before the ${death}`);
    t.same(await one.ports('orders'), [backend.port]);
    if (death === 'first') await one.saved('orders');
    resolver.kill('SIGSEGV');
    t.equal(await resolver.ended, 'SIGSEGV');
  }
  const third = await one.serve();
  t.equal(transport(third), 'portable');
  const said = third.events().filter(({ event }) => event === 'transport-avoided');
  t.equal(said.length, 1, 'it says so, once');
  t.match(String(said[0]?.message), /signal/);
  t.same(await one.ports('orders'), [backend.port], 'and answers');
  third.kill('SIGTERM');
  t.equal(await third.ended, 0);
  const chosen = await one.serve('--transport', 'batched');
  t.equal(transport(chosen), 'batched', 'whoever asks for it gets it');
});

const nativeCalls = loadNativeCalls();
const noNative = typeof nativeCalls === 'string' && `no native probes here: ${nativeCalls}`;

t.test('the same of the prober: the next start probes without native calls', { skip: noNative }, async (t) => {
  const one = new Host();
  const backend = await new Backend().open();
  t.teardown(async () => {
    await one.dispose();
    await backend.close();
  });
  one.port = await freePort();
  one.configure();
  one.list({ orders: [backend.port] });
  await one.serve();
  for (const death of ['first', 'second']) {
    const prober = one.probe();
    await prober.said('resolver-connected');
    t.equal(prober.events().filter(({ event }) => event === 'portable-tcp-probes').length, 0, `before the ${death}`);
    prober.kill('SIGSEGV');
    t.equal(await prober.ended, 'SIGSEGV');
  }
  for (const start of ['third', 'fourth']) {
    const prober = one.probe();
    await prober.said('portable-tcp-probes');
    const said = prober.events().filter(({ event }) => event === 'portable-tcp-probes');
    t.equal(said.length, 1, `the ${start} says so, once`);
    t.match(String(said[0]?.reason), /two starts .* by a signal .*native-probes\.json to try again/);
    await until('its word in the status', () =>
      /by a signal/.test(one.json<StatusDocument>('status').prober.portable ?? ''),
    );
    t.match(one.command('status').stdout, /prober .*without native calls: two starts/);
    await until('a pass', () => /pass/.test(one.command('explain', `orders.${ZONE}`).stdout));
    prober.kill('SIGTERM');
    t.equal(await prober.ended, 0);
  }
});

function transport(program: { events(): { event: string; [field: string]: unknown }[] }): unknown {
  return program.events().find(({ event }) => event === 'answering')?.transport;
}

t.test("what a person said outlives a death right after the command's answer (R9, R10, R29)", async (t) => {
  const one = new Host();
  t.teardown(() => one.dispose());
  one.port = await freePort();
  one.configure();
  one.list({ orders: [1, 2], users: [11, 12, 13, 14] });
  let resolver = await one.serve();
  await one.saved('users');
  const say = async (path: string, body: object): Promise<void> => {
    const answer = await until('an answer', async () => {
      const answer = await askControl(join(one.folder, 'run'), path, { body });
      return answer.kind === 'answer' && answer;
    });
    t.match(answer.body, { unsaved: undefined });
    resolver.kill('SIGKILL');
    await resolver.ended;
    resolver = await one.serve();
  };
  for (const undo of [false, true, false]) {
    await say('/v1/drain', { name: 'orders-1', undo });
    t.same(await one.ports('orders'), undo ? [1, 2] : [2], undo ? 'given back' : 'drained');
  }
  one.list({ orders: [1, 2], users: [11] });
  await resolver.said('guard-tripped');
  t.same(await one.ports('users'), [11, 12, 13, 14]);
  await say('/v1/accept', { name: 'users' });
  t.same(await one.ports('users'), [11]);
});
