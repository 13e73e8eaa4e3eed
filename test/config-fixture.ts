/** The least configuration there is, and what a bad one says. */
import { ConfigError } from '../src/config/errors.js';
import { parseConfig } from '../src/config/load.js';

export const FILE = '/etc/holdfast/holdfast.yaml';
export const PLACES = { stateDir: '/var/lib/holdfast', runDir: '/run/holdfast' };
export const LEAST = `version: 1
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
`;

export const read = (text: string, file = FILE) => parseConfig(text, file, PLACES);

/** The one error of a bad configuration. */
export function fault(text: string): string {
  try {
    read(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'no error';
}
