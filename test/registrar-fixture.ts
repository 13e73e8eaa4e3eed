/** What registrars of tests register. */
import type { Entry } from '../src/registrar/entry.js';

export const SECOND = 1000;

export const TTL = 30 * SECOND;

export const OWN = '1700000000000-00000001';

export const WEB: Entry = {
  service: 'web',
  id: 'web-1',
  address: '10.0.0.1',
  port: 80,
  protocol: 'tcp',
  tags: [],
  state: 'passing',
};
