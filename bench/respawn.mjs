/**
 * `npm run bench:respawn`: the answer thread throws under load. How long is nobody answered, is a question lost, and what
 * does the log say?
 */
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { askSteadily } from './lib/load.mjs';
import { count, median, ms } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const SERVICES = 1000;
const RATE = 5000;
/** The thread of the start lives so long: by then there is a spare one, as for the most of a resolver's life. */
const LIFE_MS = 10_000;
const CALM_MS = 8000;
const SECONDS = 4;
const LIST_MS = 10_000;
const MOST_MS = 50;
const DYING = fileURLToPath(new URL('./inside/dying-thread.cjs', import.meta.url));

const options = new Command('bench:respawn')
  .description('how long nobody is answered when the answer thread throws')
  .option('--rounds <n>', 'deaths', Number, 9)
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const data = new DataSet(bench.folder('data'), { services: SERVICES });
  const file = data.questions('SRV');
  const rounds = [];
  for (let round = 0; round < options.rounds; round++) {
    rounds.push(await death(bench, `holdfast-${round}`, data.registryFile(), file));
    const { maxUs, lost, lines } = rounds.at(-1);
    say(
      `round ${round + 1} of ${options.rounds}, load ${load()}: at most ${ms(maxUs / 1000)} ms, ${lost} lost, ${lines} line`,
    );
  }
  const longest = rounds.map(({ maxUs }) => maxUs / 1000);
  const lost = rounds.reduce((sum, round) => sum + round.lost, 0);
  const lines = Math.max(...rounds.map((round) => round.lines));
  const facts = [
    `${count(RATE)} queries a second for ${SECONDS} s in each of ${options.rounds} rounds; the whole server on core 0, the client on core 1`,
    'in each the only answer thread throws once, with questions in its socket, and a spare one takes its place',
  ];
  writeSection('respawn', 'While an answer thread dies', 'npm run bench:respawn', facts, [
    ...table(
      ['from a question to its answer, of a round at most', 'median ms', 'least', 'most'],
      [['holdfast, 1,000 services', ms(median(longest)), ms(Math.min(...longest)), ms(Math.max(...longest))]],
    ),
    '',
    goal('longest without an answer, median of the rounds, ms', median(longest), MOST_MS, ms),
    goal('lost', lost, 0, String),
    goal('lines in the log', lines, 1, String),
  ]);
});

async function death(bench, name, registry, file) {
  const port = await bench.port();
  const config = writeConfig(bench.folder(name), port, registry);
  const args = ['--require', DYING, ...serveArguments(config, 'batched')];
  const env = { DYING_AFTER_MS: String(LIFE_MS) };
  const running = bench.start(process.execPath, args, { core: SERVER_CORE, env });
  await ask(port, `${serviceName(SERVICES - 1)}.${ZONE}`, 'SRV', {
    timeout: LIST_MS,
    accept: (reply) => reply.answers > 0,
  });
  await setTimeout(CALM_MS);
  const result = await askSteadily(bench, port, file, { rate: RATE, seconds: SECONDS });
  const lines = running.output.split('\n').filter((line) => line.startsWith('{'));
  await running.stop();
  if (!lines.some((line) => line.includes('"answer-thread-died"'))) throw new Error(`no thread died: ${lines}`);
  if (!lines.some((line) => line.includes('the spare thread'))) throw new Error(`there was no spare thread: ${lines}`);
  return { maxUs: result.maxUs, lost: result.sent - result.received + result.unsent, lines: lines.length };
}
