/** A prober that a newer one has replaced leaves that one in peace, and is there when it leaves (R36). */
import { request } from 'node:http';
import { VACANCY_PATH } from './feed.js';

/**
 * Waits at the resolver, as long as it takes. `vacant`: a prober is needed. `refused`: there is no place to wait at.
 * `away`: the resolver is gone, or `signal` was aborted.
 */
export function awaitVacancy(socketPath: string, signal: AbortSignal): Promise<'vacant' | 'refused' | 'away'> {
  return new Promise((resolve) => {
    const asked = request({ socketPath, path: VACANCY_PATH, headers: { Host: 'localhost' }, agent: false, signal });
    asked.on('response', (response) => {
      response.on('error', () => {});
      response.resume();
      resolve(response.statusCode === 204 ? 'vacant' : 'refused');
    });
    asked.on('error', () => resolve('away'));
    asked.on('close', () => resolve('away'));
    asked.end();
  });
}
