import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { encodeQuery } from '../src/dns/encode-query.js';
import { readMessage } from '../src/dns/read-message.js';
import {
  questionFault,
  signMessage,
  TSIG_ALGORITHMS,
  TSIG_ERROR,
  TsigAnswers,
  type TsigKey,
  unsignedError,
} from '../src/registry/dns-tsig.js';
import { parseTsigKey, readTsigKey } from '../src/registry/tsig-key.js';

const SECRET = Buffer.from('0123456789abcdef');
const KEY: TsigKey = { name: 'xfr.example', algorithm: 'hmac-sha256', secret: SECRET };
const NOW = 2_000_000_000;
const query = (id = 7): Uint8Array => encodeQuery({ id, name: 'corp.test', type: 6, edns: {} })!;

/** As if a server had sent it. */
function reply(id = 7): Uint8Array {
  const bytes = query(id);
  bytes[2] = 0x84;
  return bytes;
}

t.test('a signed question is known by who has the key, and by nobody else', async (t) => {
  for (const algorithm of Object.keys(TSIG_ALGORITHMS)) {
    const key = { ...KEY, algorithm };
    const { bytes } = signMessage(query(), { key, seconds: NOW });
    const tsig = readMessage(bytes)!.tsig!;
    t.match(tsig, { name: 'xfr.example', algorithm, time: NOW, fudge: 300, originalId: 7, error: 0 });
    t.equal(questionFault(bytes, tsig, key, NOW + 300), TSIG_ERROR.NONE, algorithm);
    t.equal(questionFault(bytes, tsig, key, NOW + 301), TSIG_ERROR.BADTIME);
    t.equal(questionFault(bytes, tsig, key, NOW - 301), TSIG_ERROR.BADTIME);
    t.equal(questionFault(bytes, tsig, { ...key, secret: Buffer.from('other') }, NOW), TSIG_ERROR.BADSIG);
    t.equal(questionFault(bytes, tsig, { ...key, name: 'other' }, NOW), TSIG_ERROR.BADKEY);
    t.equal(questionFault(bytes, tsig, { ...key, algorithm: 'hmac-md5' }, NOW), TSIG_ERROR.BADKEY);
  }
});

t.test('whatever bit of a signed question is another, it is found', async (t) => {
  const { bytes } = signMessage(query(), { key: KEY, seconds: NOW });
  const ttl = query().length + KEY.name.length + 2 + 4;
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const other = bytes.slice();
    other[bit >> 3]! ^= 1 << (bit & 7);
    const tsig = readMessage(other)?.tsig;
    const fault = tsig === undefined ? 'none' : questionFault(other, tsig, KEY, NOW);
    // Not signed as they stand on the wire: the id, which forwarders change, case (RFC 4343), and the record's own TTL.
    const at = bit >> 3;
    const letters = [bytes[at]!, other[at]!].map((byte) => String.fromCharCode(byte).toUpperCase());
    const exempt = at < 2 || letters[0] === letters[1] || (at >= ttl && at < ttl + 4);
    if (fault === TSIG_ERROR.NONE && !exempt) t.fail(`bit ${bit} may be another`);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.nat(bytes.length), (noise, at) => {
      const tsig = readMessage(Uint8Array.from([...bytes.subarray(0, at), ...noise]))?.tsig;
      if (tsig !== undefined) questionFault(bytes, tsig, KEY, NOW);
    }),
    { numRuns: 2_000 },
  );
});

t.test('an answer is believed when it is signed for this very question', async (t) => {
  const asked = signMessage(query(), { key: KEY, seconds: NOW });
  const question = readMessage(asked.bytes)!.tsig!;
  const take = (bytes: Uint8Array, seconds = NOW, key = KEY): string => {
    return new TsigAnswers(key, asked.mac, () => seconds).take(bytes, readMessage(bytes)!)?.reason ?? 'believed';
  };
  const { bytes } = signMessage(reply(), { key: KEY, seconds: NOW, question });
  t.equal(take(bytes), 'believed');
  const padded = Buffer.concat([Buffer.alloc(9), bytes]);
  t.equal(take(padded.subarray(9)), 'believed', 'wherever it lies in memory');
  t.equal(take(reply()), 'the answer is not signed');
  t.equal(take(bytes, NOW + 400), 'the answer is signed at another time: the clocks differ by more than 5 min');
  t.equal(take(bytes, NOW, { ...KEY, secret: Buffer.from('other') }), 'the signature of the answer is wrong');
  t.equal(take(bytes, NOW, { ...KEY, name: 'other' }), 'the answer is signed with another key');
  const elsewhere = { ...question, mac: Buffer.alloc(32) };
  const strange = signMessage(reply(), { key: KEY, seconds: NOW, question: elsewhere });
  t.equal(take(strange.bytes), 'the signature of the answer is wrong', 'it answers another question');
  const flipped = bytes.slice();
  flipped[20]! ^= 0x01;
  t.equal(take(flipped), 'the signature of the answer is wrong');
  const refused = reply();
  refused[3] = 9;
  const { BADKEY, BADSIG, BADTIME } = TSIG_ERROR;
  t.match(take(unsignedError(refused, question, BADKEY)), /^NOTAUTH \(BADKEY: the server does not know the key/);
  t.match(take(unsignedError(refused, question, BADSIG)), /^NOTAUTH \(BADSIG: the server has another secret/);
  const late = signMessage(refused, { key: KEY, seconds: NOW + 900, question, error: BADTIME });
  t.match(take(late.bytes), /^NOTAUTH \(BADTIME: the clocks differ/);
  t.equal(readMessage(late.bytes)?.tsig?.other.length, 6, 'it says what time it is');
  t.equal(
    take(unsignedError(reply(), question, 0)),
    'NOERROR (TSIG error 0)',
    'good news without a signature are none',
  );
});

t.test('a transfer may have unsigned messages between signed ones, up to 99, and a signed end', async (t) => {
  const asked = signMessage(query(), { key: KEY, seconds: NOW });
  const question = readMessage(asked.bytes)!.tsig!;
  const first = signMessage(reply(), { key: KEY, seconds: NOW, question }).bytes;
  const begun = (): TsigAnswers => {
    const answers = new TsigAnswers(KEY, asked.mac, () => NOW);
    t.equal(answers.whole, false);
    t.equal(answers.take(first, readMessage(first)!), undefined);
    t.equal(answers.whole, true);
    return answers;
  };
  const unsigned = reply();
  const answers = begun();
  for (let i = 0; i < 99; i++) t.equal(answers.take(unsigned, readMessage(unsigned)!), undefined);
  t.equal(answers.whole, false, 'the end is not signed');
  t.equal(answers.take(unsigned, readMessage(unsigned)!)?.reason, 'the answer is not signed', 'one too many');
  t.match(begun().take(first, readMessage(first)!), { reason: /signature/ }, 'the same message again');
});

t.test('files with a key', async (t) => {
  const secret = SECRET.toString('base64');
  const good = { name: 'xfr.example', algorithm: 'hmac-sha256', secret: KEY.secret };
  for (const text of [
    `key "xfr.example" {\n\talgorithm hmac-sha256;\n\tsecret "${secret}";\n};\n`,
    `# made today\n/* by us */\nkey XFR.example. { secret ${secret}; algorithm HMAC-SHA256; }`,
    `// from the primary\nhmac-sha256:xfr.example:${secret}\n`,
  ]) {
    const key = parseTsigKey(text);
    t.same(typeof key === 'string' ? key : { ...key, secret: Buffer.from(key.secret) }, good);
  }
  t.match(parseTsigKey(`hmac-sha256:a://${secret.slice(2)}`), { name: 'a' }, 'a secret may begin so');
  for (const [text, says] of [
    ['', /neither/],
    [secret, /neither/],
    [`key a { algorithm hmac-sha256; }`, /neither/],
    [`hmac-md5:a:${secret}`, /its algorithm is none of hmac-sha1, /],
    [`hmac-sha256:a b:${secret}`, /neither/],
    [`hmac-sha256:a..b:${secret}`, /its name is no domain name/],
    ['hmac-sha256:a:not-base64', /its secret is no base64/],
  ] as const) {
    const said = parseTsigKey(text);
    t.match(said, says);
    t.notOk(typeof said === 'string' && said.includes(secret), 'and never what it is');
  }
  const dir = t.testdir({ key: `hmac-sha256:a:${secret}` });
  t.match(await readTsigKey(join(dir, 'key')), { name: 'a' });
  writeFileSync(join(dir, 'key'), 'x'.repeat(70_000));
  t.match(await readTsigKey(join(dir, 'key')), {
    kind: 'unreachable',
    reason: /key cannot be used: it has 70000 bytes/,
  });
  t.match(await readTsigKey(join(dir, 'none')), { kind: 'unreachable', reason: /none cannot be used: no such file/ });
});
