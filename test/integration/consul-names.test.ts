/** Names of `naming: consul` against a real agent: what the golden file says of it is what it answers. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { exchangeTcp } from '../../src/ask/exchange.js';
import { encodeQuery } from '../../src/dns/encode-query.js';
import { freePort, Host, until } from '../blackbox/program.js';
import { ASKED_TYPES, DOMAIN, golden, NAMES, registrations, showReply } from '../consul-names.js';
import { ConsulServer, findConsul } from './consul-server.js';

const skip =
  findConsul() === undefined ? 'no consul on the PATH and none was built: names against a real agent' : false;

t.test('an agent answers as the golden file says', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-consul-names-'));
  const agent = await ConsulServer.start(folder);
  t.teardown(async () => {
    await agent.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const body of registrations()) await agent.register(body);
  const server = { address: '127.0.0.1', port: agent.dnsPort };
  const lines = golden();
  t.same(
    lines.map(({ name, type }) => `${name} ${type}`),
    NAMES.flatMap((name) => Object.keys(ASKED_TYPES).map((type) => `${name} ${type}`)),
    'the golden file has every question',
  );
  for (const { name, type, agent: expected } of lines) {
    const query = encodeQuery({ id: 1, name: `${name}.${DOMAIN}`, type: ASKED_TYPES[type] })!;
    const reply = await exchangeTcp(query, { server, timeoutMs: 5000, accept: (bytes) => bytes });
    t.equal(showReply(reply), expected, `${name} ${type}`);
  }

  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  writeFileSync(
    host.config,
    `version: 1
listen: ["127.0.0.1:${host.port}"]
stateDir: state
runDir: run
zones:
  - name: ${DOMAIN}
    naming: consul
    check: { type: none }
    registry: { type: consul, address: "${agent.origin}" }
`,
  );
  const resolver = await host.serve();
  await resolver.said('zone-synced');
  const ours = { address: '127.0.0.1', port: host.port };
  const ask = async (name: string, type: keyof typeof ASKED_TYPES): Promise<string> => {
    const query = encodeQuery({ id: 1, name: `${name}.${DOMAIN}`, type: ASKED_TYPES[type] })!;
    return showReply(await exchangeTcp(query, { server: ours, timeoutMs: 5000, accept: (bytes) => bytes }));
  };
  await until('names of addresses', async () => (await ask('0a000005.addr', 'A')).startsWith('NOERROR'));
  for (const { name, type, ours: expected } of lines) {
    t.equal(await ask(name, type), expected, `${name} ${type}, by way of holdfast`);
  }
});
