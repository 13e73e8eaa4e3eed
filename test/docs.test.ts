/** Documents say what is so: rules, scenarios, commands, examples and links that they name are there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { METRIC_NAMES } from '../src/admin/metrics.js';
import { runProgram } from '../src/cli/program.js';
import { checkSource, parseConfig } from '../src/config/load.js';
import { registrationSection } from '../src/config/schema/registration.js';
import { parseSource } from '../src/config/source.js';
import { REGISTRAR_METRIC_NAMES } from '../src/registrar/metrics-text.js';
import { parseHere } from '../src/registry/parse.js';
import { root } from './root.js';
import { readScenarios } from './scenario-engine/scenario.js';

const docs = ['README.md', ...filesIn('docs', '.md'), 'test/scenarios/README.md'];
const texts = new Map(docs.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const scenarioFiles = filesIn('test/scenarios', '.yaml');
/** Of each scenario file, the rules that its stories name. */
const shown = new Map(
  scenarioFiles.map((file) => [
    file.slice('test/scenarios/'.length),
    new Set(readScenarios(join(root, file)).flatMap((scenario) => scenario.rules)),
  ]),
);

function filesIn(folder: string, ending: string): string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith(ending));
  return names.sort().map((name) => `${folder}/${name}`);
}

/** Sections of docs/rules.md by the number of the rule. */
function ruleSections(): Map<string, string> {
  const sections = texts.get('docs/rules.md')!.split(/^(?=#{2,3} )/m);
  const rules = sections.flatMap((section): [string, string][] => {
    const number = /^### (R\d+) \S/.exec(section)?.[1];
    return number === undefined ? [] : [[number, section]];
  });
  return new Map(rules);
}

interface Block {
  readonly where: string;
  readonly language: string;
  readonly text: string;
}

function blocks(file: string): Block[] {
  const text = texts.get(file)!;
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    where: `${file}:${text.slice(0, match.index).split('\n').length}`,
    language: match[1]!,
    text: match[2]!,
  }));
}

t.test('every rule has a section, and names the scenarios that show it', async (t) => {
  const sections = ruleSections();
  t.same(
    [...sections.keys()],
    Array.from({ length: 36 }, (_, i) => `R${i + 1}`),
    'R1 to R36, in order',
  );
  const cited = new Set([...shown.values()].flatMap((rules) => [...rules].filter((rule) => /^R\d/.test(rule))));
  t.ok(cited.size > 10, 'scenarios cite rules');
  t.same(
    [...cited].filter((rule) => !sections.has(rule)),
    [],
    'every rule that a scenario cites is written down',
  );
  for (const [rule, section] of sections) {
    const line = /^Shown by (.*)$/m.exec(section)?.[1];
    const named = [...(line ?? '').matchAll(/`([\w-]+\.yaml)`/g)].map((match) => match[1]!);
    t.same(
      named.filter((file) => !shown.get(file)?.has(rule)),
      [],
      `${rule}: what is named has a story of it`,
    );
    t.equal(named.length > 0, cited.has(rule), `${rule}: named if and only if there is one`);
    if (!cited.has(rule))
      t.match(section, /\*\*Not yet in force\.\*\*|it is not a scenario\./, `${rule}: says why none`);
  }
});

t.test('documents and options speak of rules that exist', async (t) => {
  const sections = ruleSections();
  for (const [file, text] of texts) {
    const numbers = new Set([...text.matchAll(/\bR(\d+)\b/g)].map((match) => `R${match[1]}`));
    t.same(
      [...numbers].filter((rule) => !sections.has(rule)),
      [],
      file,
    );
  }
});

t.test('scenario files and metrics that are named exist', async (t) => {
  for (const [file, text] of texts) {
    const stories = [...text.matchAll(/`([\w-]+\.yaml)`/g)].map((match) => match[1]!);
    const known = [...shown.keys(), 'holdfast.yaml', 'services.yaml'];
    t.same(
      stories.filter((name) => !known.includes(name)),
      [],
      `${file}: files`,
    );
    const metrics = [...text.matchAll(/`(holdfast_\w+)/g)].map((match) => match[1]!);
    t.same(
      metrics.filter((name) => ![...METRIC_NAMES, ...REGISTRAR_METRIC_NAMES].includes(name)),
      [],
      `${file}: metrics`,
    );
  }
});

t.test('examples of configurations and registry files are good', async (t) => {
  const limits = { maxServices: 10, maxEndpoints: 100, maxEndpointsPerService: 100, maxBody: 65536 };
  let configurations = 0;
  let registries = 0;
  let registrations = 0;
  const check = async (where: string, text: string): Promise<void> => {
    const keys = Object.keys((parse(text) ?? {}) as object);
    if (keys.includes('version')) {
      configurations++;
      t.doesNotThrow(() => parseConfig(text, '/etc/holdfast/holdfast.yaml'), where);
      return;
    }
    if (keys.includes('name') && keys.includes('port')) {
      registrations++;
      const source = parseSource(where, text);
      t.doesNotThrow(() => checkSource(source, where, registrationSection, (values) => values), where);
      return;
    }
    registries++;
    const bytes = new TextEncoder().encode(text);
    const result = await parseHere({ format: 'yaml', bytes, options: { file: where, allowAddresses: [], limits } });
    t.match(result, { ok: true, contents: { rejected: [] } }, where);
  };
  for (const file of docs.filter((name) => name !== 'test/scenarios/README.md')) {
    for (const { where, language, text } of blocks(file)) if (language === 'yaml') await check(where, text);
  }
  for (const file of [...filesIn('conf', '.yaml'), ...filesIn('conf/register.d', '.yaml')])
    await check(file, readFileSync(join(root, file), 'utf8'));
  t.ok(configurations >= 4 && registries >= 3 && registrations >= 2, 'there are examples of all');
});

/** What `holdfast ARGS --help` prints. */
async function helpOf(...args: string[]): Promise<string> {
  const write = process.stdout.write;
  let text = '';
  process.stdout.write = (chunk: string | Uint8Array) => {
    text += chunk;
    return true;
  };
  try {
    await runProgram([...args, '--help']);
  } finally {
    process.stdout.write = write;
  }
  return text;
}

t.test('commands in documents are those of the program', async (t) => {
  const top = await helpOf();
  const commands = [...top.matchAll(/^ {2}([a-z]+)(?= \[| )/gm)].map((match) => match[1]!);
  t.ok(commands.includes('serve') && commands.includes('accept'), 'the help was read');
  const helps = new Map<string, string>();
  let count = 0;
  for (const file of docs) {
    const lines = blocks(file)
      .filter(({ language }) => ['sh', 'console'].includes(language))
      .flatMap(({ text }) => text.split('\n'))
      .map((line) => /^(?:\$ )?(?:node bin\/)?holdfast(?:\.js)? (.*)$/.exec(line)?.[1]);
    const inline = [...texts.get(file)!.matchAll(/`(?:node bin\/)?holdfast(?:\.js)? ([^`]*)`/g)].map(
      (match) => match[1],
    );
    for (const line of [...lines, ...inline]) {
      if (line === undefined) continue;
      count++;
      // What follows -- is another program's.
      const [command = '', ...rest] = line.replace(/ -- .*/, '').split(/\s+/);
      if (!commands.includes(command)) {
        t.fail(`${file}: holdfast ${line}: no such command`);
        continue;
      }
      const help = helps.get(command) ?? (await helpOf(command));
      helps.set(command, help);
      for (const option of rest.filter((word) => word.startsWith('-'))) {
        const known = new RegExp(`^ {2}(?:-\\w, )?${option}\\b|^ {2}${option}, `, 'm').test(help);
        t.ok(known, `${file}: holdfast ${line}: ${option}`);
      }
    }
  }
  t.ok(count > 10, 'there are commands to look at');
});

t.test('links between documents lead somewhere', async (t) => {
  const anchors = (file: string): Set<string> =>
    new Set(
      [...readFileSync(join(root, file), 'utf8').matchAll(/^#+ (.+)$/gm)].map((match) =>
        match[1]!
          .toLowerCase()
          .replace(/[^\w\- ]/g, '')
          .replaceAll(' ', '-'),
      ),
    );
  const dead: string[] = [];
  let count = 0;
  for (const [file, text] of texts) {
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      count++;
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? file : relative(root, join(root, dirname(file), path));
      if (!existsSync(join(root, target))) dead.push(`${file}: ${link}`);
      else if (anchor !== undefined && target.endsWith('.md') && !anchors(target).has(anchor))
        dead.push(`${file}: ${link}`);
    }
  }
  t.same(dead, []);
  t.ok(count > 10, 'there are links to look at');
});
