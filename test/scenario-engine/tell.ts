/** Tells a scenario as it happens: `node build/test/scenario-engine/tell.js FILE [PART OF A NAME]`. */
import { run } from './run.js';
import { readScenarios } from './scenario.js';

const [file, ...words] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write('usage: tell.js FILE [PART OF A NAME]\n');
  process.exit(2);
}
for (const scenario of readScenarios(file)) {
  if (!scenario.name.includes(words.join(' '))) continue;
  console.log(`\n${scenario.name} (${scenario.rules.join(', ')})\n  ${scenario.why}`);
  const failure = run(scenario, (line) => console.log(`  ${line}`));
  if (failure === null) console.log('  as written');
  else {
    const { before: _, ...told } = failure;
    console.log('  NOT AS WRITTEN', told);
    process.exitCode = 1;
  }
}
