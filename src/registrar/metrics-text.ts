/** How a registrar stands, in the text format of Prometheus: for the textfile collector of node_exporter. Pure. */
import type { RegistrarStatus } from './status-document.js';

type Labels = Readonly<Record<string, string | number>>;

/** All names that exist: a contract with dashboards and alerts. */
const HELP = {
  holdfast_registration_state: 'Always 1; the state of the registration is in the label.',
  holdfast_registration_state_since_seconds: 'When the registration came to its state, in seconds since 1970.',
  holdfast_registrar_problems: 'What is wrong with the files of a registrar; `holdfast status` says what.',
} as const;

export const REGISTRAR_METRIC_NAMES: readonly string[] = Object.keys(HELP);

export function metricsText({ registrar, problems, registrations }: RegistrarStatus): string {
  const told = registrations.map(({ zone, service, id, registry, state, since }) => {
    return { labels: { zone, service, id, registry }, state, since: Date.parse(since) / 1_000 };
  });
  return [
    ...family(
      'holdfast_registration_state',
      told.map(({ labels, state }) => [{ ...labels, state }, 1]),
    ),
    ...family(
      'holdfast_registration_state_since_seconds',
      told.map(({ labels, since }) => [labels, since]),
    ),
    ...family('holdfast_registrar_problems', [[{ pid: registrar.pid }, problems.length]]),
    '',
  ].join('\n');
}

function family(name: keyof typeof HELP, samples: readonly (readonly [Labels, number])[]): string[] {
  if (samples.length === 0) return [];
  const lines = samples.map(([labels, value]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(String(text))}"`);
    return `${name}{${pairs.join(',')}} ${value}`;
  });
  return [`# HELP ${name} ${HELP[name]}`, `# TYPE ${name} gauge`, ...lines];
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
