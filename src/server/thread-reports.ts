/** What answer threads report in the same words. */
import type { BindFailure } from './bind-error.js';
import type { FromThread, ListenMessage, TriedMessage } from './messages.js';

/** The answer to a listen message. */
export function tried(
  message: ListenMessage,
  failures: ReadonlyMap<string, BindFailure>,
  fds: ReadonlyMap<string, readonly number[]> = new Map(),
): TriedMessage {
  const results = message.plans.map(({ key }) => {
    const failure = failures.get(key);
    const bound = fds.get(key);
    return { key, ...(failure ? { failure } : {}), ...(bound ? { fds: bound } : {}) };
  });
  return { type: 'tried', sequence: message.sequence, results };
}

/** What a log line says of something that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Reports the first failure of a kind to answer a query; the counter tells of the rest. */
export function failureReporter(say: (message: FromThread) => void, thread: string): (error: unknown) => void {
  const told = new Set<string>();
  return (error) => {
    const text = errorText(error);
    if (told.has(text) || told.size >= 16) return;
    told.add(text);
    say({ type: 'log', level: 'error', event: 'answer-failed', fields: { thread, error: text } });
  };
}
