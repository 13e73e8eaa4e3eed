/** What is another in a list, told by its bytes, is what comparing both lists as a whole tells. */
import t from 'tap';
import { ChangedPartOf } from '../src/registry/changed-part.js';

interface Item {
  readonly Node: string;
  readonly Text: string;
  readonly Index: number;
}

const bytesOf = (items: readonly Item[]): Buffer => Buffer.from(JSON.stringify(items));
const item = (i: number, more: Partial<Item> = {}): Item => ({ Node: `n${i}`, Text: 'as ever', Index: i, ...more });

t.test('of any two lists every object that differs is told, and none that is in neither', (t) => {
  const ODD = ['},{"Node":"n1"', '"', '\\', '{"Node":', '][', 'é\u{1f600}', '\u0000', ']'];
  const random = randomFrom(7);
  let told = 0;
  for (let history = 0; history < 400; history++) {
    const part = new ChangedPartOf('Node');
    let items = Array.from({ length: Math.floor(random() * 40) }, (_, i) => item(i));
    part.keep(bytesOf(items));
    for (let turn = 0; turn < 4; turn++) {
      const before = items;
      items = [...before];
      for (let i = Math.floor(random() * 3); i >= 0; i--) {
        const at = Math.floor(random() * (items.length + 1));
        const text = ODD[Math.floor(random() * ODD.length)]!;
        const kind = Math.floor(random() * 3);
        if (kind === 0) items.splice(at, 0, item(1000 * history + turn, { Text: text }));
        else if (kind === 1) items.splice(at, 1 + Math.floor(random() * 3));
        else if (at < items.length) items[at] = { ...items[at]!, Text: text, Index: 100 + history };
      }
      const changed = part.compare(bytesOf(items));
      if (changed === undefined) continue;
      told++;
      const texts = (list: readonly unknown[]): Set<string> => new Set(list.map((one) => JSON.stringify(one)));
      const [all, old] = [texts(items), texts(before)];
      const [now, then] = [texts(changed.now), texts(changed.before)];
      for (const text of all) if (!old.has(text) && !now.has(text)) t.fail(`not told: ${text}`);
      for (const text of old) if (!all.has(text) && !then.has(text)) t.fail(`not told to be gone: ${text}`);
      for (const text of now) if (!all.has(text)) t.fail(`made up: ${text}`);
      for (const text of then) if (!old.has(text)) t.fail(`made up before: ${text}`);
    }
  }
  t.ok(told > 800, `${told} were told`);
  t.end();
});

t.test('a part is small where one object of many differs, and a list that has nothing in common is no part', (t) => {
  const items = Array.from({ length: 40_000 }, (_, i) => item(i));
  const part = new ChangedPartOf('Node');
  t.equal(part.compare(bytesOf(items)), undefined, 'nothing to compare with');
  t.same(part.compare(bytesOf(items)), { before: [], now: [] });
  const more = [...items.slice(0, 12_345), item(12_345, { Text: 'new' }), ...items.slice(12_346)];
  t.same(part.compare(bytesOf(more)), { before: [item(12_345)], now: [item(12_345, { Text: 'new' })] });
  t.equal(part.compare(bytesOf(more.map((one) => ({ ...one, Index: 7 })))), undefined, 'all of it');
  t.equal(part.compare(Buffer.from('no list at all')), undefined);
  t.equal(part.compare(bytesOf(items)), undefined, 'what was no list says nothing of the next');
  part.keep(undefined);
  t.notOk(part.isOfUse);
  t.end();
});

/** The same numbers for the same seed, in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
