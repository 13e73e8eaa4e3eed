import fc from 'fast-check';
import t from 'tap';
import { MAX_LINE_BYTES, type ProbeResult } from '../src/prober/feed.js';
import { LineSplitter } from '../src/prober/lines.js';
import { readFromProber, readToProber } from '../src/prober/messages.js';
import { Outbox } from '../src/prober/outbox.js';
import { target } from './prober-fixture.js';

t.test('R36: what comes in is a message or a counted drop', async (t) => {
  const known = (key: string) => (key === 'a' ? key : undefined);
  const good = { key: 'a', at: 900, interval: 5_000, took: 3 };
  const read = (value: unknown) => readFromProber(JSON.stringify(value), known, 1_000);
  t.same(read({ op: 'results', results: [good, { ...good, failure: 'refused', detail: 'ECONNREFUSED' }] }), {
    message: { op: 'results', results: [good, { ...good, failure: 'refused', detail: 'ECONNREFUSED' }] },
    dropped: 0,
  });
  const bad: unknown[] = [
    null,
    'text',
    { ...good, key: 'b' },
    { ...good, key: 1 },
    { ...good, at: 1e7 },
    { ...good, at: -1 },
    { ...good, at: null },
    { ...good, interval: 0 },
    { ...good, took: '3' },
    { ...good, failure: 'tired' },
    { ...good, detail: {} },
  ];
  t.same(read({ op: 'results', results: [...bad, good] }), {
    message: { op: 'results', results: [good] },
    dropped: bad.length,
    odd: 'a result of another form',
  });
  t.same(read({ op: 'results', results: [{ ...good, key: 'b' }, good] }), {
    message: { op: 'results', results: [good] },
    dropped: 1,
  });
  t.equal(read({ op: 'results', results: [{ ...good, at: 1e7 }] }).odd, 'a result from the future');
  const long = read({ op: 'results', results: [{ ...good, interval: 1e15 }] });
  t.match(
    long,
    { message: { results: [{ interval: 86_400_000 }] }, dropped: 0 },
    'it outlives its prober by days at most',
  );
  t.same(readFromProber('{"op":"results","results":[{"key":"a","at":1e999,"interval":1,"took":1}]}', known, 1_000), {
    message: { op: 'results', results: [] },
    dropped: 1,
    odd: 'a result of another form',
  });
  t.same(read({ op: 'results', results: [{ ...good, at: 1_500, detail: 'a\u001b[2Jb' }] }).message, {
    op: 'results',
    results: [{ ...good, at: 1_000, detail: 'a?[2Jb' }],
  });
  const hello = { op: 'hello', pid: 5, version: '1', wall: 1 };
  const alive = { op: 'alive', at: 5, targets: 1, late: 0, localErrors: 0 };
  const portable = { ...alive, stretch: 2, reason: 'EMFILE', conntrack: 0.5, portable: 'no koffi' };
  for (const message of [hello, alive, portable]) t.same(read(message), { message, dropped: 0 });
  for (const message of [hello, alive, { op: 'results', results: [good] }])
    t.same(read({ ...message, newer: 1 }), { message, dropped: 0 }, 'a prober of a later version');
  t.same(read({ op: 'results', results: [{ ...good, newer: 1 }] }).message, { op: 'results', results: [good] });
  const lines = [
    '',
    '{',
    'null',
    '[]',
    '7',
    '{"op":"stop"}',
    '{"op":"results","results":{}}',
    '{"op":"__proto__"}',
    JSON.stringify({ ...hello, pid: 1.5 }),
    JSON.stringify({ ...alive, late: Number.NaN }),
    JSON.stringify({ ...alive, portable: true }),
  ];
  for (const line of lines) {
    const odd = line.startsWith('{"') ? /^a message "\w+" of another form$/ : 'a line that is no JSON object';
    t.match(readFromProber(line, known, 1_000), { message: undefined, dropped: 1, odd }, line);
  }
  t.equal(readFromProber('{}', known, 1_000).odd, 'a message without op of another form');
  const endless = readFromProber(JSON.stringify({ op: `\u001b${'x'.repeat(1_000)}` }), known, 1_000).odd!;
  t.ok(endless.length < 300 && !endless.includes('\u001b'), 'fit for a log line and a terminal');
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (line) => {
      const read = readFromProber(line, known, 1_000);
      return read.message !== undefined || read.dropped === 1;
    }),
  );

  const fit = target();
  const unfit = [
    { ...fit, address: 'example.org' },
    { ...fit, port: 0 },
    { ...fit, type: 'exec' },
    { ...fit, interval: 0 },
    { ...fit, timeout: 1e12 },
    { ...fit, headers: { a: 1 } },
    { ...fit, status: [[200]] },
    7,
  ];
  t.same(readToProber(JSON.stringify({ op: 'targets', targets: [...unfit, fit], newer: 1 })), {
    message: { op: 'targets', targets: [fit] },
    dropped: unfit.length,
    odd: `what is to be probed, of another form: ${unfit.length}`,
  });
  t.same(readToProber(JSON.stringify({ op: 'change', add: [fit], remove: ['a', 1] })), {
    message: { op: 'change', add: [fit], remove: ['a'] },
    dropped: 1,
    odd: 'what is to be probed, of another form: 1',
  });
  for (const line of ['', '{"op":"targets"}', '{"op":"change","add":[]}', 'nonsense'])
    t.match(readToProber(line), { message: undefined, dropped: 1, odd: /^a (line|message) / }, line);
});

t.test('lines are cut the same however the bytes come, and a long one is never stored', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replaceAll('\n', ' '))),
      fc.integer({ min: 1, max: 9 }),
      (lines, size) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = new LineSplitter(1_000);
        const read: string[] = [];
        for (let i = 0; i < bytes.length; i += size) read.push(...splitter.push(bytes.subarray(i, i + size)));
        return JSON.stringify(read) === JSON.stringify(lines) && splitter.held === 0;
      },
    ),
  );
  const splitter = new LineSplitter(10);
  for (let i = 0; i < 1_000; i++) splitter.push(Buffer.alloc(1_000, 'x'));
  t.equal(splitter.held, 0);
  t.same(splitter.push(Buffer.from('x\nshort\n')), ['short']);
  t.equal(splitter.tooLong, 1);
});

t.test('results are written as JSON, in lines that are read', async (t) => {
  const outbox = new Outbox(10_000);
  const plain: ProbeResult = { key: 'tcp|127.0.0.1|80', at: 1e9 + 0.999_9, interval: 5_000, took: 0 };
  const odd: ProbeResult = { key: 'a " \\ \n \u20ac', at: 7, interval: 5_000.25, took: 12.007_9 };
  const failed: ProbeResult = { ...plain, failure: 'refused', detail: '\u20ac'.repeat(200) };
  const draining: ProbeResult = { ...plain, draining: true, detail: 'HTTP 503, draining' };
  for (const result of [plain, odd, failed, draining]) outbox.add(result);
  t.same(
    outbox.next(0).map((text) => JSON.parse(text)),
    [{ ...plain, at: 1e9 + 0.999 }, { ...odd, took: 12.007 }, failed, draining],
    'times to a microsecond, none later than it was',
  );
  for (let i = 0; i < 10_000; i++) outbox.add(failed);
  while (outbox.size > 0) {
    const sent = outbox.next(0);
    const length = Buffer.byteLength(`{"op":"results","results":[${sent.join()}]}`);
    t.ok(sent.length > 100 && length <= MAX_LINE_BYTES, `${sent.length} results, ${length} bytes`);
  }
});

t.test('results that nobody reads are dropped, the oldest first', async (t) => {
  const outbox = new Outbox(100);
  for (let i = 0; i < 1_000; i++) outbox.add({ key: `${i}`, at: i, interval: 1, took: 1 });
  t.ok(outbox.size <= 125);
  t.equal(outbox.size + outbox.dropped, 1_000);
  t.equal(outbox.wait(5), 0, 'the first goes at once');
  const sent = outbox.next(5);
  t.match(JSON.parse(sent.at(-1)!), { key: '999' });
  t.equal(outbox.wait(15), 40, 'and what follows waits for company');
  t.same(outbox.next(60), []);
});
