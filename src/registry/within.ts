import { setMaxListeners } from 'node:events';

/** Ends with `signal`. Many requests listen to it. */
export function within(signal: AbortSignal): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  if (signal.aborted) controller.abort();
  else signal.addEventListener('abort', () => controller.abort(), { once: true });
  return controller;
}
