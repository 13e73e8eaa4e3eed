/** docs/configuration.md, made from the declarations of the options. */
import type { Option, Options } from './options.js';
import { configOptions } from './schema/config.js';
import { commonOptions, registryOptions } from './schema/registry.js';

const INTRO = `# Configuration

<!-- Made by \`npm run docs:config\` from src/config/schema: edit there. -->

One YAML (or JSON) file, \`/etc/holdfast/holdfast.yaml\` unless \`--config\` or \`HOLDFAST_CONFIG\` names another; all commands read the same one.

- Durations have a unit: \`200ms\`, \`5s\`, \`10m\`, \`24h\`, \`7d\`, \`1h30m\`. Sizes too: \`64MiB\`. A bare number is an error.
- Relative paths start from the folder of the file.
- Keys that begin with \`x-\` are ignored at every level; anchors and \`<<\` work, so \`x-\` keys are the place for what several zones share.
- Any other unknown key, a bad value or a missing file is one error with file, line and key, and exit code 2. \`holdfast check\` tells without serving.
- \`SIGHUP\` reads the file again. When it is bad the same error is logged and the running configuration stays.
- What came into force is kept in \`stateDir\`. \`serve --last-good\` starts on it when the file is bad, and says so.
- R with a number refers to [the rules](rules.md).

The least that works:

\`\`\`yaml
version: 1
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
\`\`\`
`;

export function configReference(): string {
  return `${INTRO}${chapter('The file', '', configOptions)}`;
}

const SERVICE_CHECK = 'zones[].services.NAME.check';

/** A table of the options here, then a chapter for each section among them. */
function chapter(title: string, path: string, options: Options, description?: string, level = '##'): string {
  const rows = Object.entries(options).map(([name, option]) => {
    const anchor = hasChapter(name, option) ? `[${code(name)}](#${slug(join(path, name, option))})` : code(name);
    return `| ${anchor} | ${cell(option.kind)} | ${defaultOf(option)} | ${cell(option.description)} |`;
  });
  const table = ['| key | type | default | |', '|---|---|---|---|', ...rows].join('\n');
  const deeper = Object.entries(options)
    .filter(([name, option]) => hasChapter(name, option))
    .map(([name, option]) => chapterOf(name, option, join(path, name, option)));
  return `\n${level} ${title}\n\n${description === undefined ? '' : `${description}\n\n`}${table}\n${deeper.join('')}`;
}

function chapterOf(name: string, option: Option, path: string): string {
  const title = code(path);
  if (path === SERVICE_CHECK) return `\n## ${title}\n\n${option.description} The options of \`zones[].check\`.\n`;
  if (name !== 'registry') return chapter(title, path, option.children!, option.description);
  const common = chapter(`${title} of any type`, path, commonOptions, 'Beside what the type has.', '###');
  const kinds = Object.entries(registryOptions).map(([kind, options]) => {
    return chapter(`${title} with \`type: ${kind}\``, path, options, 'Beside `type`.', '###');
  });
  return `\n## ${title}\n\n${option.description} \`type\` says which kind: ${Object.keys(registryOptions).map(code).join(', ')}.\n${kinds.join('')}${common}`;
}

function hasChapter(name: string, option: Option): boolean {
  return name === 'registry' || option.children !== undefined;
}

/** `zones[].services.NAME.check` */
function join(path: string, name: string, option: Option): string {
  const own = option.kind.startsWith('list') ? `${name}[]` : option.kind.startsWith('map') ? `${name}.NAME` : name;
  return path === '' ? own : `${path}.${own}`;
}

/** As GitHub makes anchors of headings. */
function slug(path: string): string {
  return path.toLowerCase().replace(/[^a-z0-9 _-]/g, '');
}

function defaultOf(option: Option): string {
  if (option.required) return 'required';
  if (option.defaultText !== undefined) return cell(option.defaultText);
  if (option.default === undefined) return '';
  const value = option.default;
  if (typeof value === 'object') {
    const empty = Object.keys(value as object).length === 0;
    if (option.children && empty) return '';
    return code(JSON.stringify(value).replaceAll('","', '", "'));
  }
  return code(String(value));
}

function code(text: string): string {
  return `\`${text}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
