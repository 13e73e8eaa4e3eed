/** Names of `naming: consul` against a real agent: what the golden file says of it is what it answers. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { exchangeTcp } from '../../src/ask/exchange.js';
import { encodeQuery } from '../../src/dns/encode-query.js';
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
});
