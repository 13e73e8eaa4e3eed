import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { root } from './root.js';
import { run } from './scenario-engine/run.js';
import { readScenarios, type Scenario } from './scenario-engine/scenario.js';

const folder = join(root, 'test', 'scenarios');
const all = readdirSync(folder)
  .filter((name) => name.endsWith('.yaml'))
  .sort()
  .flatMap((name) => readScenarios(join(folder, name)));

for (const scenario of all) {
  const name = `${basename(scenario.file, '.yaml')}: ${scenario.name}`;
  play(scenario, name, false);
  play(scenario, `${name}, in parts`, true);
}

function play(scenario: Scenario, name: string, deferring: boolean): void {
  const failure = run(scenario, undefined, deferring);
  if (failure === null) t.pass(name);
  else t.fail(name, { ...failure, why: scenario.why, rules: scenario.rules });
}

t.test('the scenarios as a whole', async (t) => {
  const names = all.map((scenario) => scenario.name);
  t.same(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
    'each has a name of its own',
  );
  const told = new Set(all.flatMap((scenario) => scenario.rules));
  const rules = [
    1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,
  ].map((n) => `R${n}`);
  t.same(
    rules.filter((rule) => !told.has(rule)),
    [],
    'each rule that the resolver decides has a scenario',
  );
});
