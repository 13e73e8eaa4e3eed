/**
 * Items 1 to 9 (RFC 8767), 10 to 14 (RFC 8914), 15 to 17 (RFC 9520) and 42 of the checklist: of our zones on the real
 * program, of forwarded names with a clock of the test's. How a zone itself judges silence, emptiness and errors is in
 * test/scenarios.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EDE, RCODE, type TYPE } from '../src/dns/constants.js';
import { until as untilSeen } from './blackbox/program.js';
import { a, Client, FakeUpstream, type Said, soa } from './forward-fixture.js';
import { type Item, type Protocol, prove, query, SERVICES } from './protocol-fixture.js';
import { root } from './root.js';
import { pause, until } from './server-fixture.js';
import { readMessage, type WireMessage } from './wire-message.js';

t.setTimeout(240_000);

const stale = (code: number) => ({ edes: [{ code }] });
/** Takes the registry away for as long as `body` runs. */
async function outage(on: Protocol, body: () => Promise<void>): Promise<void> {
  rmSync(on.host.registry, { force: true });
  const code = async (name: string) => (await on.ask(name, 'SRV', { edns: {} })).edes[0]?.code;
  await untilSeen('a stale answer', async () => (await code('web.svc.test')) === EDE.STALE_ANSWER);
  await untilSeen('a stale denial', async () => (await code('nope.svc.test')) === EDE.STALE_NXDOMAIN);
  await body();
  on.list(SERVICES);
  await untilSeen('a fresh answer', async () => (await code('web.svc.test')) === undefined);
}

const zone: Item[] = [
  [
    '1',
    'every TTL of a stale answer is 1 to 30, in the additional section too (RFC 8767 s.4)',
    (t, on) =>
      outage(on, async () => {
        for (const tcp of [false, true]) {
          const reply = await on.ask('web.svc.test', 'SRV', { tcp, edns: {} });
          t.match(reply, { rcode: 0, ...stale(EDE.STALE_ANSWER) });
          const ttls = [...reply.answers, ...reply.additionals].map(({ ttl }) => ttl);
          t.same([ttls.length, ttls.filter((ttl) => ttl < 1 || ttl > 30)], [6, []]);
        }
      }),
  ],
  [
    '2',
    'an empty, broken or missing list of the registry is no word about what it had; a list that says so is',
    async (t, on) => {
      const count = async () => (await on.ask('even.svc.test', 'A', { tcp: true })).answers.length;
      for (const text of ['', '{', 'services:', '[]', '{"services": 7}', 'not a list']) {
        writeFileSync(on.host.registry, text);
        await untilSeen('staleness', async () => (await on.ask('even.svc.test', 'A', { edns: {} })).edes.length > 0);
        t.equal(await count(), 10, JSON.stringify(text));
      }
      on.list({ ...SERVICES, even: { endpoints: SERVICES.even!.endpoints.slice(1) } });
      await untilSeen('a removal', async () => (await count()) === 9);
      on.list(SERVICES);
      await untilSeen('all', async () => (await count()) === 10);
      writeFileSync(on.host.registry, '{"services": {}}');
      await untilSeen(
        'the guard',
        async () => (await on.host.json<{ zones: { guard: { zone: boolean } }[] }>('status')).zones[0]!.guard.zone,
      );
      t.equal(await count(), 10, 'all at once is guarded');
      on.list(SERVICES);
    },
  ],
  [
    '10',
    'extended errors go to those who asked with OPT only (RFC 8914 s.2)',
    (t, on) =>
      outage(on, async () => {
        for (const [name, rcode] of [
          ['web.svc.test', 0],
          ['nope.svc.test', 3],
          ['web.never.test', 2],
          ['web.others.test', 5],
        ] as const) {
          t.match(await on.ask(name, 'A'), { rcode, opts: [], additionals: [] }, `${name} without`);
          t.match(await on.ask(name, 'A', { edns: {} }), { rcode, opts: [{}], edes: [{}] }, `${name} with`);
        }
      }),
  ],
  [
    '11',
    'stale answers have code 3, without data too, and stale denials 19; the rcode stays (s.4.4, s.4.20)',
    (t, on) =>
      outage(on, async () => {
        t.match(await on.ask('web.svc.test', 'A', { edns: {} }), { rcode: 0, ...stale(3) });
        t.match(await on.ask('web.svc.test', 'AAAA', { edns: {} }), { rcode: 0, answers: [], ...stale(3) });
        t.match(await on.ask('empty.svc.test', 'A', { edns: {} }), { rcode: 0, answers: [], ...stale(3) });
        t.match(await on.ask('nope.svc.test', 'A', { edns: {} }), { rcode: 3, ...stale(19) });
      }),
  ],
  [
    '12',
    'not ready is 14, prohibited 18, not authoritative 20',
    async (t, on) => {
      t.match(await on.ask('web.never.test', 'A', { edns: {} }), { rcode: 2, ...stale(14) });
      t.match(await on.ask('web.others.test', 'A', { edns: {} }), { rcode: 5, ...stale(18) });
      t.match(await on.ask('x.example', 'A', { edns: {}, recursionDesired: false }), { rcode: 5, ...stale(20) });
    },
  ],
  [
    '13',
    'the text is short, UTF-8, without a NUL at its end or a path of this host (s.2)',
    (t, on) =>
      outage(on, async () => {
        for (const name of ['web', 'nope', 'empty']) {
          const { edes } = await on.ask(`${name}.svc.test`, 'SRV', { edns: {} });
          const text = edes[0]!.text;
          t.ok(text.length <= 60 && !text.includes('\0') && !text.includes('/') && !text.includes('\ufffd'), text);
        }
      }),
  ],
  [
    '14',
    'a bare extended error has its room: fresh and stale replies are cut alike, and TC tells of records only',
    async (t, on) => {
      const seen = async () => {
        const all: string[] = [];
        for (const name of ['even', 'crowd', 'web'])
          for (let payload = 512; payload <= 1232; payload += 90) {
            const reply = await on.ask(`${name}.svc.test`, 'SRV', { edns: { payload } });
            if (reply.bytes.length > payload) t.fail(`${reply.bytes.length} bytes for ${payload}`);
            all.push(`${name} ${payload}: ${reply.answers.length} ${reply.additionals.length} ${reply.flags.tc}`);
          }
        return all;
      };
      const fresh = await seen();
      await outage(on, async () => {
        t.same(await seen(), fresh);
        t.match(readFileSync(join(root, 'docs', 'rules.md'), 'utf8'), /TC tells of missing records only/);
      });
    },
  ],
];
prove(zone);

/** An upstream, and a forwarder over it whose clock can be put forward. */
async function forwarder(t: Test, said: Said | undefined, more = {}) {
  const upstream = await new FakeUpstream(() => said).start(t);
  const client = new Client(t, [upstream.at], more);
  const ask = async (name: string, type: keyof typeof TYPE = 'A'): Promise<WireMessage> =>
    readMessage((await client.send(query(name, type, { edns: {} })))!);
  return { upstream, client, ask };
}
const GOOD = { answers: [a('192.0.2.1', 300)], additionals: [a('192.0.2.2', 900)] };
const BAD = { rcode: RCODE.SERVFAIL };

t.test('1 every TTL of a stale forwarded answer is 1 to 30', async (t) => {
  const { upstream, client, ask } = await forwarder(t, GOOD);
  await ask('x.example');
  client.skipped += 3_600_000;
  upstream.behave = () => BAD;
  await ask('x.example');
  const reply = await ask('x.example');
  t.match(reply, { rcode: 0, ...stale(EDE.STALE_ANSWER) });
  t.same(
    [...reply.answers, ...reply.additionals].map(({ ttl }) => ttl),
    [30, 30],
  );
});

t.test('2 an answer of an upstream that denies is news, one that fails is none', async (t) => {
  const { upstream, client, ask } = await forwarder(t, GOOD);
  await ask('x.example');
  for (const rcode of [RCODE.SERVFAIL, RCODE.REFUSED, RCODE.FORMERR, RCODE.NOTIMP]) {
    upstream.behave = () => ({ rcode });
    client.skipped += 3_600_000;
    t.match(await ask('x.example'), { rcode: 0, answers: [{}], ...stale(EDE.STALE_ANSWER) }, `rcode ${rcode}`);
  }
  upstream.behave = () => ({ rcode: RCODE.NXDOMAIN, authorities: [soa(60, 60)] });
  client.skipped += 3_600_000;
  await until(async () => (await ask('x.example')).rcode === RCODE.NXDOMAIN);
});

t.test('3 a TTL with the top bit set is long, not 0, and a long one is a week at most (s.4)', async (t) => {
  for (const ttl of [0x8000_0005, 0xffff_ffff, 0x7fff_ffff, 604_801]) {
    const { upstream, client, ask } = await forwarder(t, { answers: [a('192.0.2.1', ttl)] });
    t.equal((await ask('x.example')).answers[0]?.ttl, 604_800, 'as it comes');
    client.skipped += 86_400_000;
    t.equal((await ask('x.example')).answers[0]?.ttl, 604_800 - 86_400, 'a day later');
    t.equal(upstream.heard.length, 1);
  }
});

t.test('4 a known name does not wait for an upstream that is silent (s.5)', async (t) => {
  const { upstream, client, ask } = await forwarder(t, GOOD);
  await ask('x.example');
  client.skipped += 310_000;
  let released = false;
  upstream.behave = () => undefined;
  const first = ask('x.example').then((reply) => ({ reply, released }));
  setTimeout(() => (released = true), 300);
  t.match(await first, { reply: { rcode: 0, ...stale(EDE.STALE_ANSWER) }, released: false });
});

t.test('5 a name that failed is not asked for again within 30 s, however often it is asked (s.5)', async (t) => {
  const { upstream, client, ask } = await forwarder(t, GOOD);
  await ask('x.example');
  client.skipped += 310_000;
  upstream.behave = () => BAD;
  const before = upstream.heard.length;
  for (let second = 0; second < 60; second++) {
    for (let i = 0; i < 20; i++) t.equal((await ask('x.example')).rcode, 0);
    await pause(1);
    client.skipped += 1_000;
  }
  const heard = upstream.heard.length - before;
  t.ok(heard >= 2 && heard <= 3, `${heard} in a minute`);
});

t.test('6 how long a stale answer may be given is a setting, said in the documents, and measured', async (t) => {
  const { upstream, client, ask } = await forwarder(t, GOOD, { maxStale: 3_600_000 });
  await ask('x.example');
  upstream.behave = () => BAD;
  client.skipped += 300_000 + 3_500_000;
  t.equal((await ask('x.example')).rcode, 0);
  t.ok(client.forwarder.counts.stale > 0);
  client.skipped += 200_000;
  t.equal((await ask('x.example')).rcode, RCODE.SERVFAIL);
  t.match(readFileSync(join(root, 'docs', 'configuration.md'), 'utf8'), /maxStale/);
});

t.test('7 after a stale answer the refresh goes on, and old and new are not mixed (s.6)', async (t) => {
  const { upstream, client, ask } = await forwarder(t, { answers: [a('192.0.2.1'), a('192.0.2.2')] });
  await ask('x.example');
  client.skipped += 310_000;
  upstream.behave = () => ({ answers: [a('192.0.2.3')] });
  const seen = new Set<string>();
  await until(async () => {
    const { answers } = await ask('x.example');
    seen.add(answers.map(({ rdata }) => rdata[3]).join());
    return answers[0]?.rdata[3] === 3;
  });
  t.same([...seen].sort(), ['1,2', '3']);
  t.equal((await ask('x.example')).edes.length, 0);
});

t.test('8 for want of room it is forwarded answers that go, never a name of a zone (s.6)', async (t) => {
  const { client, ask } = await forwarder(t, GOOD, { cacheBytes: 20_000 });
  for (let i = 0; i < 200; i++) await ask(`n${i}.example`);
  t.ok(client.forwarder.cache.bytes <= 20_000 && client.forwarder.cache.entries > 10);
  t.ok((await ask('n199.example')).answers[0]!.ttl <= 300);
});

t.test('9 there is nothing to ask for or to decline stale answers by: an unknown option changes nothing', async (t) => {
  const { upstream, client } = await forwarder(t, GOOD);
  const asked = query('x.example', 'A', { edns: { options: [{ code: 65_001, data: Buffer.from([1]) }] } });
  t.match(readMessage((await client.send(asked))!), { rcode: 0 });
  t.equal(upstream.heard.length, 1);
});

t.test('12 no data of an upstream: 22 where it failed, 23 where there was no answer', async (t) => {
  const failing = await forwarder(t, BAD);
  t.match(await failing.ask('x.example'), { rcode: RCODE.SERVFAIL, ...stale(EDE.NO_REACHABLE_AUTHORITY) });
  const silent = await forwarder(t, undefined);
  t.match(await silent.ask('x.example'), { rcode: RCODE.SERVFAIL, ...stale(EDE.NETWORK_ERROR) });
});

t.test(
  '15 a failure is kept for 5 s at first, for longer while it lasts, for 5 min at most (RFC 9520 s.3.2)',
  async (t) => {
    const { upstream, client, ask } = await forwarder(t, BAD);
    const waits: number[] = [];
    let since = 0;
    for (let second = 0; second < 180; second++) {
      const before = upstream.heard.length;
      for (let i = 0; i < 5; i++) t.equal((await ask('x.example')).rcode, RCODE.SERVFAIL);
      if (upstream.heard.length > before) {
        waits.push(second - since);
        since = second;
      }
      client.skipped += 1_000;
    }
    t.same(waits.slice(0, 4), [0, 5, 10, 20]);
    t.ok(
      waits.slice(4).every((wait) => wait >= 20 && wait <= 300),
      waits.join(),
    );
  },
);

t.test('16 one question is asked of one upstream three times at most (s.3.1)', async (t) => {
  const { upstream, ask } = await forwarder(t, undefined);
  await Promise.all([ask('x.example'), ask('x.example'), ask('X.example')]);
  await pause(1_500);
  const tries = upstream.heard.filter(({ name }) => name.toLowerCase() === 'x.example').length;
  t.ok(tries >= 1 && tries <= 3, `${tries}`);
});

t.test('17 a failure never hides data, nor outlives it', async (t) => {
  const { upstream, client, ask } = await forwarder(t, BAD);
  t.equal((await ask('x.example')).rcode, RCODE.SERVFAIL);
  client.skipped += 6_000;
  upstream.behave = () => GOOD;
  t.equal((await ask('x.example')).rcode, 0);
  upstream.behave = () => BAD;
  for (let i = 0; i < 10; i++) {
    client.skipped += 200_000;
    t.match(await ask('x.example'), { rcode: 0, answers: [{}] });
  }
});

t.test('42 a negative answer is kept for three hours at most (RFC 2308 s.5)', async (t) => {
  const { upstream, client, ask } = await forwarder(t, { rcode: RCODE.NXDOMAIN, authorities: [soa(604_800, 604_800)] });
  await ask('x.example');
  client.skipped += 3 * 3_600_000 - 5_000;
  t.equal((await ask('x.example')).rcode, RCODE.NXDOMAIN);
  client.skipped += 10_000;
  await ask('x.example');
  await until(() => upstream.heard.length >= 2);
});
