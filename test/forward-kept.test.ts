/**
 * Answers of upstreams that the answer threads give by themselves: fresh, stale, and in an outage, when they wait for no
 * control thread. What a client gets is the same as from the control thread.
 */
import t from 'tap';
import { EDE, RCODE, TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { Query } from '../src/dns/query.js';
import { COUNTER, CounterTotals } from '../src/server/counters.js';
import { HandoverReader, HandoverWriter, handoverMemory, NO_ENVELOPE } from '../src/server/handover.js';
import type { ForeignQuestion } from '../src/server/handover-desk.js';
import { type KeptAnswer, KeptAnswers } from '../src/server/kept-answers.js';
import { decode, type Reply } from './answers-fixture.js';
import { a, Client, FakeUpstream, type Said, say, soa } from './forward-fixture.js';
import { askUdp, framed, pause, question, Served, TcpClient, until } from './server-fixture.js';

t.setTimeout(120_000);

const LOCAL = ['127.0.0.0/8'];
const PEER = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
const FOR_LONG = { dueMs: 60_000, freshMs: 60_000, aloneMs: 60_000, outageMs: 60_000, group: 0 };

/** `KeptAnswers`, as a responder uses it. */
class Keeper {
  readonly kept = new KeptAnswers();
  readonly out = new Uint8Array(1232);
  readonly #query = new Query();

  /** Length of the answer, 0 for none. */
  find(asked: Uint8Array, now: number, limit = 1232): number {
    this.#query.parse(asked, asked.length);
    return this.kept.find(asked, asked.length, this.#query, limit, 1232, now, this.out);
  }

  reply(asked: Uint8Array, now: number): Reply | undefined {
    const length = this.find(asked, now);
    return length === 0 ? undefined : decode(this.out.slice(0, length));
  }
}

t.test('kept answers: for the very same question, as far as they fit', async (t) => {
  const keeper = new Keeper();
  const { kept, out } = keeper;
  const message = say(question('k.example', 'A'), { answers: [a('192.0.2.1', 300)] });
  const answer: KeptAnswer = {
    message,
    ttls: Uint16Array.of(33),
    dnssecOk: true,
    checkingDisabled: false,
    authenticData: true,
    age: 0,
    ...FOR_LONG,
    aloneMs: 1_500,
    outageMs: 1_500,
  };
  const ask = (more: Partial<QueryOptions> = {}) =>
    encodeQuery({ id: 7, name: 'K.EXAMPLE', type: TYPE.A, edns: { dnssecOk: true }, ...more })!;
  t.equal(keeper.find(ask(), 1_000), 0, 'none is there');
  kept.keep(answer, 1_000);
  t.equal(keeper.find(ask(), 1_000), message.length + 11);
  t.match(decode(out.slice(0, message.length + 11)), {
    flags: { ad: 1 },
    answers: [{ name: 'K.EXAMPLE', ttl: 300 }],
    opt: { dnssecOk: true, payload: 1232 },
  });
  t.notOk(kept.stale);
  t.match(keeper.reply(ask(), 2_400)?.answers, [{ ttl: 299 }]);
  t.equal(keeper.find(ask(), 2_500), 0, 'its time is over');
  const others: [string, Uint8Array][] = [
    ['another type', ask({ type: TYPE.AAAA })],
    ['a type that differs by a bit of case', ask({ type: TYPE.A + 0x20 })],
    ['another name', ask({ name: 'l.example' })],
    ['without DO', ask({ edns: {} })],
    ['with CD', ask({ checkingDisabled: true })],
    ['without RD', ask({ recursionDesired: false })],
    ['with an option', ask({ edns: { dnssecOk: true, options: [{ code: 10, data: Buffer.alloc(8) }] } })],
  ];
  for (const [what, asked] of others) t.equal(keeper.find(asked, 1_000), 0, what);
  t.equal(keeper.find(ask(), 1_000, message.length + 10), 0, 'it does not fit');
  kept.keep({ ...answer, freshMs: 0 }, 1_000);
  t.equal(keeper.find(ask(), 2_400), message.length + 17);
  t.match(decode(out.slice(0, message.length + 17)), { answers: [{ ttl: 30 }], ede: { code: 3, text: '' }, opts: 1 });
  t.ok(kept.stale);
  t.equal(keeper.find(ask(), 1_000, message.length + 16), 0, 'with its extended error it does not fit');
  for (let i = 0; i < 15_000; i++)
    kept.keep({ ...answer, message: say(question(`n${i}.example`, 'A'), { answers: [a('192.0.2.1')] }) }, 1_000);
  t.ok(kept.size > 10_000 && kept.size < 15_000, 'it is bounded');
  t.equal(keeper.find(ask({ name: 'n14999.example' }), 1_000) > 0, true, 'the newest stay');
  kept.reset();
  t.equal(keeper.find(ask({ name: 'n14999.example' }), 1_000), 0);
});

t.test('kept answers: stale ones while they may, with the TTLs and the extended error of such', async (t) => {
  const keeper = new Keeper();
  const { kept } = keeper;
  const outages = new Int32Array(new SharedArrayBuffer(8));
  kept.reset(outages);
  const said = [a('192.0.2.1', 300), a('192.0.2.2', 30), a('192.0.2.3', 7), a('192.0.2.4', 0)];
  const answer = (name: string, more: Said): KeptAnswer => {
    const message = say(question(name, 'A'), more);
    const records = more.answers?.length ?? 0;
    const ttls = Uint16Array.from({ length: records }, (_, i) => message.length - 16 * (records - i) + 6);
    const flags = { dnssecOk: false, checkingDisabled: false, authenticData: false };
    return { message, ttls, ...flags, age: 0, dueMs: 900, freshMs: 1_000, aloneMs: 2_000, outageMs: 9_000, group: 1 };
  };
  kept.keep(answer('k.example', { answers: said }), 0);
  kept.keep(answer('l.example', { answers: said }), 0);
  kept.keep(answer('gone.example', { rcode: RCODE.NXDOMAIN }), 0);
  const ask = (name: string, edns = true) => question(name, 'A', 1, edns ? 1232 : undefined);
  const ttls = (now: number, name = 'k.example', edns = true) =>
    keeper.reply(ask(name, edns), now)?.answers.map(({ ttl }) => ttl);
  t.same(ttls(999), [300, 30, 7, 0], 'fresh');
  t.match(keeper.reply(ask('k.example'), 999)?.ede, undefined);
  t.same(ttls(1_000), [30, 30, 7, 1], 'stale TTLs are 1 to 30 (RFC 8767 s.4)');
  t.match(keeper.reply(ask('k.example'), 1_999)?.ede, { code: EDE.STALE_ANSWER });
  t.match(keeper.reply(ask('gone.example'), 1_999), { rcode: RCODE.NXDOMAIN, ede: { code: EDE.STALE_NXDOMAIN } });
  t.match(keeper.reply(ask('k.example', false), 1_999), { opts: 0, answers: [{ ttl: 30 }, {}, {}, {}] });
  t.equal(ttls(2_000), undefined, 'longer only in an outage');
  outages[0] = 1;
  t.equal(ttls(2_000), undefined, 'of its own upstreams');
  outages[1] = 1;
  t.same(ttls(2_000), [30, 30, 7, 1]);
  t.match(keeper.reply(ask('gone.example'), 8_999), { rcode: RCODE.NXDOMAIN, ede: { code: EDE.STALE_NXDOMAIN } });
  t.equal(ttls(9_000), undefined, 'and no longer than is allowed');

  kept.reset(outages);
  const tells = (now: number, name = 'k.example') => keeper.find(ask(name), now) > 0 && kept.tells;
  outages.fill(0);
  for (const name of ['k.example', 'l.example']) kept.keep(answer(name, { answers: said }), 0);
  t.same([tells(0), tells(899)], [false, false], 'nothing is to be told before a refresh is due');
  t.same([tells(900), tells(901), tells(1_899), tells(1_900)], [true, false, false, true], 'then once a second');
  t.equal(tells(901, 'l.example'), true, 'of each name');
  outages.fill(1);
  t.same(
    [tells(5_000), tells(5_001, 'l.example'), tells(5_249)],
    [true, false, false],
    'in an outage of one name for all',
  );
  t.equal(tells(5_250, 'l.example'), true);
});

t.test('what is told takes no room of what waits for an answer', async (t) => {
  const memory = handoverMemory();
  const writer = new HandoverWriter(memory);
  const reader = new HandoverReader(memory);
  const asked = question('told.example', 'A');
  for (let i = 0; i < 5_000; i++) writer.tell(asked, asked.length, PEER, 3, i % 2 ? 'tcp' : 'udp');
  t.equal(writer.mustWake(), true);
  let put = 0;
  while (writer.put(asked, asked.length, { ...PEER, bytes: Uint8Array.of(10, 1, put, 3) }, 53, 0, 'udp', NO_ENVELOPE))
    put++;
  t.equal(put, 1_024, 'as many as ever');
  let told = 0;
  for (let taken = reader.take(); taken; taken = reader.take()) {
    reader.done(taken);
    if (!taken.told) continue;
    const { listen, transport, query } = taken;
    t.match({ listen, transport }, { listen: 3, transport: told++ % 2 ? 'tcp' : 'udp' });
    t.ok(asked.equals(query));
    if (told > 2_000) break;
  }
  t.ok(told > 100 && told < 1_500, `${told} were told: it is bounded`);
  t.notSame(writer.put(asked, asked.length, PEER, 53, 0, 'udp', NO_ENVELOPE), 0);
});

/** A name that lives for 100 s, and one whose upstream says that it is not there. */
const SAYS: Readonly<Record<string, Said>> = {
  'x.example': { answers: [a('192.0.2.1', 100)] },
  'gone.example': { rcode: RCODE.NXDOMAIN, authorities: [soa(100, 100)] },
};

/** A question that a thread has answered already: what the control thread says to it. */
function tell(client: Client, name: string, tcp = false): Promise<KeptAnswer | undefined> {
  const told: ForeignQuestion = {
    query: question(name, 'A', 1, 1232),
    transport: tcp ? 'tcp' : 'udp',
    peer: PEER,
    listen: 0,
    told: true,
  };
  return new Promise((resolve) => client.forwarder.answer(told, (_, keep) => resolve(keep)));
}

t.test('of what threads keep, the control thread hears and has news', async (t) => {
  const upstream = await new FakeUpstream(({ name }) => SAYS[name]).start(t);
  const renewed: KeptAnswer[] = [];
  const client = new Client(t, [upstream.at], { renewed: (answer) => renewed.push(answer) });
  await client.ask('x.example', 'A', { edns: {} });
  const seconds = (keep: KeptAnswer | undefined) =>
    keep && [keep.dueMs, keep.freshMs, keep.aloneMs, keep.outageMs].map((ms) => Math.round(ms / 1_000));
  t.same(seconds(await tell(client, 'x.example')), [90, 100, 130, 86_500], 'a thread that has an older one');
  t.equal(client.forwarder.counts.queries, 1, 'who was answered by a thread is not counted twice');
  t.equal(client.forwarder.counts.hits, 0);
  t.equal(await tell(client, 'unknown.example'), undefined);
  t.equal(upstream.heard.length, 1);

  client.skipped += 95_000;
  t.equal(await tell(client, 'x.example'), undefined);
  await until(() => renewed.length === 1);
  t.same(seconds(renewed[0]), [90, 100, 130, 86_500], 'a refresh near its end, for all threads');
  client.skipped += 110_000;
  t.equal(await tell(client, 'x.example'), undefined);
  await until(() => renewed.length === 2);
  t.equal(upstream.heard.length, 3, 'and after it');

  client.skipped += 110_000;
  upstream.behave = () => ({ answers: Array.from({ length: 100 }, (_, i) => a(`192.0.2.${i}`, 100)) });
  await tell(client, 'x.example');
  await until(() => renewed.length === 3);
  t.same(seconds(renewed[2]), [0, 0, 0, 0], 'what is too large for a thread takes away what it had');
  const keeper = new Keeper();
  keeper.kept.keep(renewed[1]!, 0);
  t.ok(keeper.find(question('x.example', 'A', 1, 1232), 0) > 0);
  keeper.kept.keep(renewed[2]!, 0);
  t.equal(keeper.find(question('x.example', 'A', 1, 1232), 0), 0);
});

t.test('how long a thread may give a stale answer', async (t) => {
  let said: Said | undefined = SAYS['x.example'];
  const upstream = await new FakeUpstream(() => said).start(t);
  const client = new Client(t, [upstream.at], { maxStale: 3_600_000 });
  const keep = async () => {
    const query = question('x.example', 'A', 1, 1232);
    const foreign: ForeignQuestion = { query, transport: 'udp', peer: PEER, listen: 0 };
    const kept = await new Promise<KeptAnswer | undefined>((resolve) =>
      client.forwarder.answer(foreign, (_, keep) => resolve(keep)),
    );
    return kept && [kept.freshMs, kept.aloneMs, kept.outageMs].map((ms) => Math.round(ms / 1_000));
  };
  await keep();
  said = { rcode: RCODE.SERVFAIL };
  client.skipped += 110_000;
  t.same(await keep(), [-10, 20, 3_590], 'just expired');
  await until(() => upstream.heard.length === 2);
  client.skipped += 25_000;
  await pause(50);
  t.same(await keep(), [-35, 2, 3_565], 'when a refresh has just failed, a little while');
  client.skipped += 3_600_000 - 36_000;
  await pause(50);
  t.same(await keep(), undefined, 'what the refresh of an older one brings is seen first');
  client.skipped += 40_000;
  t.equal(await keep(), undefined, 'and nothing for longer than maxStale');

  const short = new Client(t, [upstream.at], { maxStale: 4_000 });
  said = SAYS['x.example'];
  await short.ask('x.example', 'A', { edns: {} });
  t.match(await tell(short, 'x.example'), { aloneMs: Number, outageMs: Number });
  const news = (await tell(short, 'x.example'))!;
  t.ok(news.aloneMs <= news.outageMs && news.outageMs <= 104_000, 'a short maxStale holds here, too');
});

t.test('an outage is told in shared memory, and few questions are on their way in it', async (t) => {
  let up = true;
  const upstream = await new FakeUpstream(() => (up ? SAYS['x.example'] : undefined)).start(t);
  const other = await new FakeUpstream(() => SAYS['x.example']).start(t);
  const renewed: string[] = [];
  const client = new Client(t, [upstream.at], {
    domains: [{ domain: 'other.example', upstreams: [other.at] }],
    renewed: ({ message }) => renewed.push(decode(message).answers[0]!.name),
  });
  const { outages } = client.forwarder;
  const names = Array.from({ length: 300 }, (_, i) => `n${i}.example`);
  for (const name of [...names, 'x.other.example']) {
    await client.ask(name, 'A', { edns: {} });
    await tell(client, name);
  }
  t.same([outages[0], outages[1]], [0, 0]);
  up = false;
  client.skipped += 110_000;
  for (const name of names) await tell(client, name);
  t.equal(client.forwarder.counts.flights, 301 + 64, 'not one for each name');
  await until(() => outages[0] === 1);
  t.equal(outages[1], 0, 'the servers of a domain are others');
  await pause(1_000);
  const before = upstream.heard.length;
  t.ok(before <= 301 + 2 * 64, 'nobody waits, so no further tries');
  for (const name of names) await tell(client, name);
  await pause(300);
  t.ok(upstream.heard.length - before <= 2, 'a single one finds out whether it is over');
  await tell(client, 'x.other.example');
  await until(() => renewed.includes('x.other.example'));
  up = true;
  await until(async () => {
    await tell(client, 'n0.example');
    return outages[0] === 0;
  });
  renewed.length = 0;
  await until(async () => {
    for (const name of names) await tell(client, name);
    return new Set(renewed).size >= 299;
  });
  t.pass('after it, what is asked for is fresh again');
});

for (const transport of ['batched', 'portable'] as const) {
  t.test(`${transport}: through an outage, over UDP and TCP`, async (t) => {
    let up = true;
    const upstream = await new FakeUpstream(({ name }) => (up ? (SAYS[name] ?? {}) : undefined)).start(t);
    let served: Served | undefined;
    const client = new Client(t, [upstream.at], { renewed: (answer) => served!.server.keep([answer]) });
    const { answer, outages } = client.forwarder;
    let held = false;
    const waiting: (() => void)[] = [];
    served = await new Served(transport).start(t, {
      transport,
      workers: transport === 'batched' ? 2 : 1,
      forward: {
        allow: LOCAL,
        answer: (foreign, reply) => {
          const go = () => answer(foreign, reply);
          if (held) waiting.push(go);
          else go();
        },
        outages,
      },
    });
    const { server, port } = served;
    const at = { address: '127.0.0.1', port };
    const ask = (name: string) => askUdp(at, question(name, 'A', 9, 1232), 500);
    const tcp = new TcpClient(at);
    t.teardown(() => tcp.socket.destroy());
    const askTcp = async (name: string): Promise<Reply> => {
      const { length } = tcp.messages();
      tcp.socket.write(framed(question(name, 'A', 9, 1232)));
      return (await tcp.take(length + 1)).at(-1)!;
    };
    const kept = (): number => {
      const all = new CounterTotals();
      for (const counters of server.counters()) all.add(counters);
      return all.totals[COUNTER.forwardKept]! + all.totals[COUNTER.forwardKeptStale]!;
    };
    /** Every thread has it: each question has a socket of its own, and so any of them. */
    const allKeep = async (name: string) => {
      await until(async () => {
        const before = kept();
        for (let i = 0; i < 16; i++) await ask(name);
        await askTcp(name);
        return kept() - before === 17;
      });
    };
    await allKeep('x.example');
    await allKeep('gone.example');

    t.test('when it has run out lately, it is given at once and is fresh soon', async (t) => {
      client.skipped += 95_000;
      server.setForward({ allow: LOCAL, answer: (foreign, reply) => answer(foreign, reply), outages });
      await until(async () => (await ask('x.example'))?.answers[0]?.ttl === 100);
      t.equal((await askTcp('x.example')).answers[0]?.ttl, 100);
    });

    t.test('in it nobody waits for the control thread', async (t) => {
      up = false;
      client.skipped += 3_600_000;
      // As the process does when its clocks have parted.
      server.setForward({
        allow: LOCAL,
        answer: (foreign, reply) => {
          const go = () => answer(foreign, reply);
          if (held) waiting.push(go);
          else go();
        },
        outages,
      });
      await until(async () => {
        await Promise.all([ask('x.example'), ask('gone.example')]);
        return outages[0] === 1;
      });
      await allKeep('x.example');
      await allKeep('gone.example');
      held = true;
      for (let round = 0; round < 3; round++) {
        for (const reply of [await ask('x.example'), await askTcp('x.example')])
          t.match(reply, {
            rcode: 0,
            answers: [{ ttl: 30 }],
            ede: { code: EDE.STALE_ANSWER },
            flags: { aa: 0, ra: 1 },
          });
        for (const reply of [await ask('gone.example'), await askTcp('gone.example')])
          t.match(reply, { rcode: RCODE.NXDOMAIN, ede: { code: EDE.STALE_NXDOMAIN } });
        await pause(300);
      }
      t.ok(waiting.length > 0, 'it is told, though');
      held = false;
      for (const go of waiting.splice(0)) go();
    });

    t.test('after it the next answers are fresh', async (t) => {
      up = true;
      await until(async () => {
        await ask('x.example');
        return outages[0] === 0;
      });
      for (const reply of [await ask('x.example'), await askTcp('x.example')])
        t.match(reply, { answers: [{}], ede: undefined });
      t.match(await ask('gone.example'), { rcode: RCODE.NXDOMAIN, ede: undefined }, 'of others, too');
    });
  });
}
