/** The real program after deaths that native calls may have been the cause of. */
import t from 'tap';
import { loadLinuxCalls } from '../../src/server/linux-calls.js';
import { Backend, freePort, Host } from './program.js';

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

function transport(program: { events(): { event: string; [field: string]: unknown }[] }): unknown {
  return program.events().find(({ event }) => event === 'answering')?.transport;
}
