/** bench/RESULTS.md: each benchmark writes its own section and leaves the others as they are. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { holdfastVersion, load, machineText } from './system.mjs';

const FILE = fileURLToPath(new URL('../RESULTS.md', import.meta.url));
const ORDER = [
  'answers',
  'forward',
  'stall',
  'respawn',
  'soak',
  'scale',
  'start',
  'outage',
  'probe',
  'types',
  'verdicts',
  'deaths',
  'registry',
  'registries',
  'register',
];
const HEAD = `# Results

Written by the scripts in this folder; [README.md](README.md) says how to run them and what they do. Each section tells
when and on what it was measured. The machines are small and shared: only the ratios within one section mean anything.
`;

/** Replaces a section. `lines` are Markdown; `facts` is a list of what else to say of the run. */
export function writeSection(id, title, command, facts, lines) {
  const sections = new Map(readSections());
  const given = process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [];
  const about = [
    `\`${[command, ...given].join(' ')}\`, ${new Date().toISOString().slice(0, 10)}, holdfast ${holdfastVersion()}`,
    machineText(),
    `load average at the end ${load()}`,
    ...facts,
  ];
  sections.set(id, [`## ${title}`, '', ...about.map((fact) => `- ${fact}`), '', ...lines].join('\n').trimEnd());
  const text = ORDER.filter((key) => sections.has(key)).map((key) => `<!-- ${key} -->\n${sections.get(key)}\n`);
  writeFileSync(FILE, [HEAD, ...text].join('\n'));
  process.stdout.write(`${sections.get(id)}\n`);
}

/** `rows` of cells as a Markdown table; the first column is text, the others are numbers. */
export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)];
}

/** One line on a goal. */
export function goal(text, value, most, show) {
  return `- ${text}: ${show(value)} (at most ${show(most)}) ${value <= most ? 'reached' : '**missed**'}`;
}

function* readSections() {
  if (!existsSync(FILE)) return;
  const text = readFileSync(FILE, 'utf8');
  for (const [, id, body] of text.matchAll(/<!-- (\w+) -->\n([\s\S]*?)(?=\n<!-- \w+ -->|$)/g))
    yield [id, body.trimEnd()];
}
