/** `holdfast explain`: why each endpoint of a name is in or out. */
import { type EndpointExplanation, type Explanation, zoneTitle } from '../admin/documents.js';
import { age, plain, type Style, styleFor, table } from '../system/terminal.js';
import { askResolver } from './ask.js';
import { EXIT_OK, EXIT_USAGE, print } from './output.js';
import { readQuestion } from './question.js';

export async function explain(
  name: string,
  type: string | undefined,
  options: { readonly config: string; readonly json?: boolean },
): Promise<number> {
  const question = readQuestion(name, type);
  if (!question) return EXIT_USAGE;
  const query = new URLSearchParams({ name, type: question.type });
  const asked = await askResolver(options.config, `/v1/explain?${query}`);
  if (!asked.ok) return asked.exit;
  if (options.json) print(JSON.stringify(asked.body, null, 2));
  else print(showExplanation(asked.body as Explanation, styleFor()));
  return EXIT_OK;
}

export function showExplanation(explanation: Explanation, style: Style): string {
  const { service, zone, view, others = [] } = explanation;
  const where = [
    ...(service === undefined ? [] : [`service ${plain(service)}`]),
    ...(zone === undefined
      ? []
      : [`zone ${plain(zoneTitle({ name: zone, ...(view === undefined ? {} : { view }) }))}`]),
  ].join(' in ');
  const lines = [
    `${style.bold(`${plain(explanation.name)} ${plain(explanation.type)}`)}: ${outcome(explanation.outcome, style)}${
      explanation.stale ? style.warn(' (stale)') : ''
    }${where === '' ? '' : `  ${style.dim(where)}`}`,
    ...explanation.because.map((sentence) => `  ${plain(sentence)}`),
  ];
  if (explanation.endpoints.length > 0) lines.push('', endpointTable(explanation.endpoints, style));
  for (const other of others) lines.push('', showExplanation(other, style));
  return lines.join('\n');
}

function outcome(word: string, style: Style): string {
  if (word === 'answer') return style.good(word);
  return word === 'servfail' || word === 'refused' ? style.bad(plain(word)) : style.warn(plain(word));
}

function endpointTable(endpoints: readonly EndpointExplanation[], style: Style): string {
  const head = ['', 'endpoint', 'address', 'prio', 'weight', 'registry', 'probe', 'last result', 'last pass', 'why'];
  const rows = endpoints.map((endpoint) => [
    endpoint.answered ? style.good('in') : style.bad('out'),
    plain(endpoint.id),
    endpoint.address.includes(':')
      ? `[${plain(endpoint.address)}]:${endpoint.port}`
      : `${plain(endpoint.address)}:${endpoint.port}`,
    String(endpoint.priority),
    String(endpoint.weight),
    endpoint.word,
    probeWord(endpoint, style),
    age(endpoint.lastResultMs),
    age(endpoint.lastSuccessMs),
    plain(endpoint.why),
  ]);
  return table([head.map(style.dim), ...rows], '  ');
}

function probeWord(endpoint: EndpointExplanation, style: Style): string {
  if (endpoint.probe === 'passes') return style.good('passes');
  if (endpoint.probe === 'no-word') return 'no word';
  const since = endpoint.failingForMs === undefined ? '' : ` for ${age(endpoint.failingForMs)}`;
  return style.bad(`fails${since}`) + (endpoint.lastFailure === undefined ? '' : ` (${plain(endpoint.lastFailure)})`);
}
