/** The registrars of this host, as `holdfast status` shows them. */
import { runFolders } from '../registrar/run-folder.js';
import type { RegistrarStatus } from '../registrar/status-document.js';
import { readStatuses } from '../registrar/status-file.js';
import { plain, type Style, since, table } from '../system/terminal.js';

export function registrarsOf(runDir: string): RegistrarStatus[] {
  return readStatuses(runFolders(runDir));
}

/** Lines for a person, without one when there is no registrar. `now` is wall time. */
export function showRegistrars(registrars: readonly RegistrarStatus[], style: Style, now: number): string[] {
  if (registrars.length === 0) return [];
  const head = ['registration', 'service', 'zone', 'registry', 'state', 'since', 'process'];
  const rows = registrars.flatMap(({ registrations, process }) =>
    registrations.map((one) => [
      plain(one.id),
      plain(one.service),
      plain(one.zone),
      plain(one.registry),
      one.state === 'registered' ? style.good(one.state) : style.warn(one.state),
      since(one.since, now),
      process === undefined ? '-' : String(process.pid),
    ]),
  );
  const notes = registrars.flatMap(({ registrations, problems }) => [
    ...registrations.flatMap((one) => [
      ...(one.reason === undefined ? [] : [`${one.id}: ${one.reason}`]),
      ...(one.healthy === false ? [`${one.id}: its local check fails`] : []),
      ...(one.draining ? [`${one.id}: draining`] : []),
    ]),
    ...problems,
  ]);
  return [
    '',
    ...(rows.length === 0 ? [] : [table([head.map(style.dim), ...rows], '  ')]),
    ...notes.map((note) => `  ${style.warn('!')} ${plain(note)}`),
  ];
}
