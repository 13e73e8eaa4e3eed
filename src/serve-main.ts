/**
 * `serve` as services start it. It is bundled into one file of CommonJS, which Node loads in two thirds of the time that
 * it takes for the same as modules, and the first answer waits for that.
 */
import { serve } from './cli/serve.js';
import { quickServeArguments } from './cli/serve-arguments.js';

/** Resolves with the exit code. Undefined when the command line is to be read as people write it (main.ts). */
export function serveQuickly(args: readonly string[]): Promise<number> | undefined {
  const quick = quickServeArguments(args);
  return quick && serve(quick);
}
