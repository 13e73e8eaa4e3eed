/** Which names are asked most. */
import t from 'tap';
import { Popularity } from '../src/health/popularity.js';

t.test('R3: what is asked more often and more lately is first, what nobody asks for is forgotten', async (t) => {
  const popularity = new Popularity();
  for (let at = 0; at < 60_000; at += 500) popularity.ask('always', at);
  for (let at = 0; at < 60_000; at += 5000) popularity.ask('often', at);
  popularity.ask('now', 60_000);
  t.same(popularity.most(9, 60_000), ['always', 'often', 'now']);
  t.same(popularity.most(2, 60_000), ['always', 'often']);
  popularity.ask('now', 200_000);
  popularity.ask('just', 200_000);
  t.same(popularity.most(9, 1_000_000), ['always'], 'the others are hardly asked any more');
  popularity.forget('always');
  t.same(popularity.most(9, 1_000_000), []);
});
