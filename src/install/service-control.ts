/** systemctl, where systemd runs. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { InstallError } from './files.js';
import { REGISTRAR, SERVICES, UNITS } from './units.js';

const PATIENCE_MS = 60_000;

/** Only of the host itself: a folder as root runs nothing. */
export function runsSystemd(root: string): boolean {
  return root === '/' && existsSync('/run/systemd/system');
}

export function enabledUnits(): string[] {
  return UNITS.filter((unit) => systemctl(['is-enabled', '--quiet', unit]).ok);
}

/** Enables and starts all units, again when they run: what they say may have changed. Throws an InstallError. */
export function startUnits(): void {
  must(['daemon-reload']);
  must(['enable', ...UNITS]);
  // The socket can only be opened anew while its service is down.
  systemctl(['stop', ...SERVICES, 'holdfast.socket']);
  must(['start', 'holdfast.socket']);
  must(['start', ...SERVICES]);
}

export function stopUnits(disable: readonly string[]): void {
  if (disable.length > 0) systemctl(['disable', ...disable, REGISTRAR]);
  systemctl(['stop', REGISTRAR, ...SERVICES, 'holdfast.socket']);
}

export function reloadUnits(): void {
  systemctl(['daemon-reload']);
}

/** systemd-resolved reads its drop-ins when it starts. */
export function restartResolved(): void {
  if (systemctl(['is-active', '--quiet', 'systemd-resolved.service']).ok) must(['restart', 'systemd-resolved.service']);
}

function systemctl(args: readonly string[]): { readonly ok: boolean; readonly said: string } {
  const { status, stderr, error } = spawnSync('systemctl', args, { encoding: 'utf8', timeout: PATIENCE_MS });
  return { ok: status === 0, said: (error?.message ?? stderr ?? '').trim() };
}

function must(args: readonly string[]): void {
  const { ok, said } = systemctl(args);
  if (!ok) throw new InstallError(`systemctl ${args.join(' ')} failed: ${said}`);
}
