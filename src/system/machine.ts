/** Which machine this is, so that a snapshot that came with a cloned disk is not taken for our own (R29). */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const FILES = ['/etc/machine-id', '/var/lib/dbus/machine-id'];

/**
 * A stable id of this machine, undefined when it has none. It is derived from the machine id,
 * which machine-id(5) asks not to be shown as it is.
 */
export function machineId(files: readonly string[] = FILES): string | undefined {
  for (const file of files) {
    try {
      const id = readFileSync(file, 'latin1').trim();
      if (/^[0-9a-f]{32}$/.test(id)) return createHash('sha256').update(`holdfast:${id}`).digest('hex').slice(0, 32);
    } catch {
      // The next file may be there.
    }
  }
  return undefined;
}
