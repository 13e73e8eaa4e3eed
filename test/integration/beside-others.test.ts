/** What other name servers say to the same questions: the one behind us, a forwarder beside us, an authoritative one. */
import t, { type Test } from 'tap';
import { TYPE } from '../../src/dns/constants.js';
import { type Asking, opt, Protocol, query, questionOf, raw } from '../protocol-fixture.js';
import { askUdp, framed, TcpClient } from '../server-fixture.js';
import { readMessage, type WireMessage } from '../wire-message.js';
import { type DnsProgram, missing } from './name-server-programs.js';
import { startServer, startUnbound } from './name-servers.js';

t.setTimeout(300_000);

const ZONE = 'real.example';
const long = (n: number) => `"${'x'.repeat(n)}"`;
const ZONE_TEXT = `$ORIGIN ${ZONE}.
$TTL 600
@ IN SOA ns admin 1 3600 600 604800 60
@ IN NS ns
@ IN NS ns2
@ IN MX 10 mail
@ IN CAA 0 issue "ca.example"
@ IN TXT "v=spf1 -all"
ns IN A 192.0.2.53
ns2 IN A 192.0.2.54
ns2 IN AAAA 2001:db8::54
mail IN A 192.0.2.25
www IN CNAME deep
deep IN A 192.0.2.1
deep IN AAAA 2001:db8::1
out IN CNAME nowhere.elsewhere.example.
loop IN CNAME pool
pool IN CNAME loop
_sip._tcp IN SRV 10 60 5060 deep
_sip._tcp IN SRV 20 0 5061 mail
h IN HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.7
s IN SVCB 16 deep port=8443
u IN TYPE65280 \\# 6 c00c00010203
n IN NAPTR 100 10 "u" "sip+E2U" "!^.*$!sip:x@real.example!" .
l IN LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
k IN SSHFP 2 1 123456789abcdef67890123456789abcdef67890
tl IN TLSA 3 1 1 0d6fce13243aa7a2cd4ff4ecd9a7c8ec4c0aa4d1c0bf5e2c9ad3b1d15c8ef2a2
*.wild IN A 192.0.2.99
*.wild IN TXT "wild"
a.b.c.ent IN A 192.0.2.77
d IN DNAME deep
zero 0 IN A 192.0.2.8
big IN TXT ${Array.from({ length: 12 }, () => long(200)).join(' ')}
${Array.from({ length: 60 }, (_, i) => `many IN A 192.0.2.${i}`).join('\n')}
`;
const NAMES = [
  '@ www deep out loop _sip._tcp h s u n l k tl x.wild wild a.b.c.ent b.c.ent ent d y.d zero big many nope a.nope',
  'WwW Deep NOPE',
].flatMap((line) => line.split(' ').map((name) => (name === '@' ? ZONE : `${name}.${ZONE}`)));
const TYPES = [1, 2, 5, 6, 15, 16, 28, 29, 33, 35, 39, 43, 44, 48, 52, 64, 65, 99, 257, 1_000, 65_280];

async function ask(port: number, message: Buffer, tcp: boolean): Promise<WireMessage> {
  if (tcp) {
    const client = new TcpClient({ address: '127.0.0.1', port });
    client.socket.write(framed(message));
    await client.take(1);
    client.socket.destroy();
    return readMessage(client.messages()[0]!);
  }
  return readMessage((await askUdp({ address: '127.0.0.1', port }, message, 10_000))!.bytes);
}

/** A few types at once: no more connections than Knot DNS lets wait (10), which are twice as many with ours. */
async function allTypes(ask: (type: number) => Promise<void>): Promise<void> {
  for (let i = 0; i < TYPES.length; i += 4) await Promise.all(TYPES.slice(i, i + 4).map(ask));
}

/** holdfast in front of a server of this host. */
async function before(t: Test, port: number): Promise<Protocol> {
  const on = new Protocol();
  on.upstreamPort = port;
  return on.start(t, 'auto');
}

/** Everything behind the question, without the OPT record. */
function records({ bytes, question, opts, answers, authorities, additionals }: WireMessage): string {
  const end = opts.length === 0 ? bytes.length : bytes.length - optBytes(opts[0]!);
  const counts = [answers, authorities, additionals].map(({ length }) => length);
  return `${counts} ${bytes.subarray(12 + question.length, end).toString('hex')}`;
}

const optBytes = ({ options }: WireMessage['opts'][number]) =>
  11 + options.reduce((sum, { data }) => sum + 4 + data.length, 0);

/** Over TCP each name and type; over UDP some. */
for (const [title, program, signed, askings] of [
  ['NSD', 'nsd', false, [{ edns: {} }]],
  [
    'Knot DNS, signing',
    'knotd',
    true,
    [{ edns: { dnssecOk: true } }, { edns: { dnssecOk: true }, checkingDisabled: true }],
  ],
] as [string, DnsProgram, boolean, Asking[]][])
  t.test(`${title} behind: what it says comes through byte by byte`, { skip: missing(program) }, async (t) => {
    const port = await startServer(t, program, ZONE, ZONE_TEXT, { signed });
    const on = await before(t, port);
    let compared = 0;
    for (const asking of askings)
      for (const tcp of [true, false])
        for (const name of NAMES)
          await allTypes(async (type) => {
            compared++;
            // Over UDP a cached reply may have counted down: those are for the types that follow.
            if (!tcp && (compared % 7 !== 1 || asking.checkingDisabled)) return;
            const asked = query(name, type, asking);
            const [theirs, ours] = await Promise.all([ask(port, asked, tcp), ask(on.host.port, asked, tcp)]);
            const same =
              ours.rcode === theirs.rcode &&
              (ours.flags.tc === theirs.flags.tc || !tcp) &&
              ours.question.equals(asked.subarray(12, 12 + ours.question.length));
            if (!same) t.fail(`${name} ${type} ${JSON.stringify(asking)}: ${ours.rcode}, not ${theirs.rcode}`);
            else if (ours.flags.tc || theirs.flags.tc || counted(ours, theirs)) return;
            else if (records(ours) !== records(theirs))
              t.fail(`${name} ${type} ${JSON.stringify(asking)} ${tcp}:\n${records(ours)}\n${records(theirs)}`);
          });
    t.ok(compared > 1_000, `${compared} replies`);
  });

/** A TTL has counted down since: records are compared without it then. */
function counted(ours: WireMessage, theirs: WireMessage): boolean {
  const bare = (message: WireMessage) =>
    [message.answers, message.authorities, message.additionals].map((all) =>
      all.map((one) => `${one.owner} ${one.type} ${one.class} ${one.rdata.toString('hex')}`),
    );
  const ttls = (message: WireMessage) => [...message.answers, ...message.authorities].map(({ ttl }) => ttl).join();
  return ttls(ours) !== ttls(theirs) && JSON.stringify(bare(ours)) === JSON.stringify(bare(theirs));
}

t.test('Unbound beside: the same answers before the same server', { skip: missing('nsd', 'unbound') }, async (t) => {
  const port = await startServer(t, 'nsd', ZONE, ZONE_TEXT);
  const unbound = await startUnbound(t, port, ZONE);
  const on = await before(t, port);
  const answer = ({ rcode, answers, authorities, flags }: WireMessage) => ({
    rcode,
    answers: answers
      .map(({ owner, type, rdata, ttl }) => `${owner} ${type} ${ttl > 0} ${rdata.toString('hex')}`)
      .sort(),
    negative: answers.length > 0 ? undefined : authorities.filter(({ type }) => type === TYPE.SOA).length,
    flags: { ...flags, ad: undefined },
  });
  // Chains that leave the server or never end are Unbound's to follow, as a resolver does; a forwarder takes them as they are.
  const left = new Set(['out', 'loop', 'y.d'].map((name) => `${name}.${ZONE}`));
  let compared = 0;
  for (const again of [false, true])
    for (const name of NAMES) {
      if (left.has(name)) continue;
      await allTypes(async (type) => {
        compared++;
        const asked = query(name, type, { edns: {} });
        const [ours, theirs] = await Promise.all([ask(on.host.port, asked, true), ask(unbound, asked, true)]);
        const [one, other] = [answer(ours), answer(theirs)];
        if (JSON.stringify(one) !== JSON.stringify(other))
          t.fail(`${name} ${type}${again ? ' again' : ''}\n${JSON.stringify(one)}\n${JSON.stringify(other)}`);
      });
    }
  t.ok(compared > 900, `${compared} answers`);

  await t.test('cut at the same sizes, whole over TCP', async (t) => {
    for (const name of [`big.${ZONE}`, `many.${ZONE}`])
      for (const type of [1, 16])
        for (const payload of [undefined, 512, 700, 1_232, 4_096]) {
          const asked = query(name, type, payload ? { edns: { payload } } : {});
          const [ours, theirs] = [await ask(on.host.port, asked, false), await ask(unbound, asked, false)];
          t.same([ours.rcode, ours.flags.tc], [theirs.rcode, theirs.flags.tc], `${name} ${type} ${payload}`);
          t.ok(ours.bytes.length <= Math.min(payload ?? 512, 1_232));
        }
  });

  await t.test('names that never leave', async (t) => {
    for (const name of ['localhost', 'invalid', 'x.invalid', 'test', 'x.test', 'x.onion', 'home.arpa', 'x.home.arpa'])
      for (const type of [1, 28, 16]) {
        const asked = query(name, type);
        const [ours, theirs] = [await ask(on.host.port, asked, false), await ask(unbound, asked, false)];
        t.same([ours.rcode, ours.answers.length], [theirs.rcode, theirs.answers.length], `${name} ${type}`);
      }
    const reverse = [
      '1.0.0.127.in-addr.arpa',
      '9.9.8.10.in-addr.arpa',
      '1.1.168.192.in-addr.arpa',
      '1.2.0.192.in-addr.arpa',
    ];
    for (const name of reverse) {
      const asked = query(name, 'PTR');
      const [ours, theirs] = [await ask(on.host.port, asked, false), await ask(unbound, asked, false)];
      t.same([ours.rcode, ours.answers.length], [theirs.rcode, theirs.answers.length], name);
    }
  });
});

t.test('Unbound in front of us: names in any letters, by stub zone', { skip: missing('unbound') }, async (t) => {
  const on = await new Protocol().start(t, 'auto', { forward: false });
  const more = `  use-caps-for-id: yes
  local-zone: "test." nodefault
  domain-insecure: "svc.test"
stub-zone:
  name: "svc.test"
  stub-addr: 127.0.0.1@${on.host.port}
`;
  const port = await startUnbound(t, on.host.port, 'svc.test', more);
  for (const name of ['web.svc.test', 'WEB.svc.TEST', 'even.svc.test', 'six.svc.test', '10-0-0-1.ip.svc.test'])
    for (const type of ['A', 'AAAA', 'SRV'] as const) {
      const [ours, theirs] = [
        await ask(on.host.port, query(name, type), true),
        await ask(port, query(name, type), true),
      ];
      const rows = ({ answers }: WireMessage) => answers.map(({ rdata }) => rdata.toString('hex')).sort();
      t.same([theirs.rcode, rows(theirs)], [0, rows(ours)], `${name} ${type}`);
    }
  t.equal((await ask(port, query('nope.svc.test', 'A'), false)).rcode, 3);
});

t.test('BIND beside: what a server makes of odd messages and of names', { skip: missing('named') }, async (t) => {
  const on = await new Protocol().start(t, 'auto', { forward: false });
  const zone = `$ORIGIN svc.test.
$TTL 5
@ IN SOA ns.ip nobody.invalid. 1 2 3 4 3
@ IN NS ns.ip
ns.ip IN A 127.0.0.1
web IN A 10.0.0.1
web IN A 10.0.0.2
web IN SRV 0 10 8081 10-0-0-1.ip
web IN SRV 0 20 8082 10-0-0-2.ip
web IN SRV 10 0 8083 10-0-0-3.ip
_web._tcp IN SRV 0 10 8081 10-0-0-1.ip
_web._tcp IN SRV 0 20 8082 10-0-0-2.ip
_web._tcp IN SRV 10 0 8083 10-0-0-3.ip
10-0-0-1.ip IN A 10.0.0.1
10-0-0-2.ip IN A 10.0.0.2
10-0-0-3.ip IN A 10.0.0.3
`;
  const named = await startServer(t, 'named', 'svc.test', zone);
  const both = async (message: Buffer, tcp = false) =>
    Promise.all([on.host.port, named].map((port) => ask(port, message, tcp)));

  await t.test('names: rcode, AA, answers, SOA', async (t) => {
    const seen = ({ rcode, flags, answers, authorities }: WireMessage) => ({
      rcode,
      aa: flags.aa,
      answers: answers.map(({ owner, type, rdata }) => `${owner} ${type} ${rdata.toString('hex')}`).sort(),
      soa: authorities.filter(({ type }) => type === TYPE.SOA).map(({ owner, ttl }) => `${owner} ${ttl}`),
    });
    for (const name of [
      'web',
      'WEB',
      '_web._tcp',
      '_tcp',
      '10-0-0-1.ip',
      'ip',
      'nope',
      'a.nope',
      '_sctp',
      'x.10-0-0-1.ip',
    ])
      for (const type of [1, 28, 33, 16, 5, 43, 1_000]) {
        const [ours, theirs] = await both(query(`${name}.svc.test`, type, { edns: {} }), true);
        t.same(seen(ours!), seen(theirs!), `${name} ${type}`);
      }
  });

  await t.test('messages: rcode, sections, OPT', async (t) => {
    const RD = 0x0100;
    const asked = questionOf('web.svc.test', 'A');
    const odd: Record<string, Buffer> = {
      'no question': raw(RD, [0, 0, 0, 0]),
      'EDNS version 1': query('web.svc.test', 'A', { edns: { version: 1 } }),
      'two OPT records': raw(RD, [1, 0, 0, 2], asked, opt(), opt()),
      'an OPT record with an owner': raw(RD, [1, 0, 0, 1], asked, opt({ owner: [1, 0x61, 0] })),
      'half an option': raw(RD, [1, 0, 0, 1], asked, opt({ data: Buffer.from([0, 10, 0]) })),
      'a record that is not there': raw(RD, [1, 0, 0, 1], asked),
      'half a name': raw(RD, [1, 0, 0, 0], asked.subarray(0, 5)),
      'a label of 64': raw(RD, [1, 0, 0, 0], Buffer.concat([Buffer.alloc(65, 64), asked])),
      'an unknown opcode': raw(6 << 11, [1, 0, 0, 0], asked),
      'a status query': raw(2 << 11, [1, 0, 0, 0], asked),
      'a transfer': query('svc.test', 'AXFR'),
      'another zone': query('www.example', 'A'),
      'DO and Z bits': raw(RD, [1, 0, 0, 1], asked, opt({ ttl: 0xffff })),
      'an unknown option': raw(RD, [1, 0, 0, 1], asked, opt({ data: Buffer.from([0xff, 0xdc, 0, 1, 7]) })),
      'a size of 100': raw(RD, [1, 0, 0, 1], asked, opt({ payload: 100 })),
    };
    const seen = ({ rcode, opts, answers, flags }: WireMessage) => ({
      rcode,
      // Where the OPT record itself is wrong BIND sends none, which RFC 6891 s.6.1.1 does not ask for.
      opts: rcode === 1 ? [] : opts.map(({ version, dnssecOk, z }) => ({ version, dnssecOk, z })),
      answers: answers.length,
      flags: { ...flags, aa: undefined },
    });
    for (const [what, message] of Object.entries(odd)) {
      const [ours, theirs] = await both(message, what === 'a transfer');
      t.same(seen(ours!), seen(theirs!), what);
    }
  });
});
