/** Where holdfast keeps its state and its sockets when the configuration does not say. */
import { existsSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Places {
  readonly stateDir: string;
  readonly runDir: string;
}

/**
 * What systemd gives a unit (systemd.exec(5)) first. Then the system's folders for root, and for everyone where they exist (a service under its own user, an operator who asks
 * for status). Otherwise the user's own, by the XDG base directory specification.
 */
export function defaultPlaces(env: NodeJS.ProcessEnv = process.env, uid = process.getuid?.() ?? 0): Places {
  const pick = (system: string, own: () => string) => (uid === 0 || existsSync(system) ? system : own());
  return {
    stateDir:
      firstOf(env.STATE_DIRECTORY) ??
      pick('/var/lib/holdfast', () =>
        join(absolute(env.XDG_STATE_HOME) ?? join(homedir(), '.local', 'state'), 'holdfast'),
      ),
    runDir:
      firstOf(env.RUNTIME_DIRECTORY) ??
      pick('/run/holdfast', () => {
        const base = absolute(env.XDG_RUNTIME_DIR);
        return base === undefined ? join(tmpdir(), `holdfast-${uid}`) : join(base, 'holdfast');
      }),
  };
}

/** A unit may have several, parted by colons. */
function firstOf(folders: string | undefined): string | undefined {
  return absolute(folders?.split(':')[0]);
}

/** The specification has relative values ignored. */
function absolute(value: string | undefined): string | undefined {
  return value?.startsWith('/') ? value : undefined;
}
