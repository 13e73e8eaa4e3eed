/** The command line's way in. `serve`, as services start it, comes first and loads nothing that it does not need. */
import { serve } from './cli/serve.js';
import { quickServeArguments } from './cli/serve-arguments.js';

/** Runs the command line. Resolves with the exit code: 0 done, 1 failed, 2 wrong usage or configuration. */
export async function main(args: readonly string[]): Promise<number> {
  const quick = quickServeArguments(args);
  if (quick) return serve(quick);
  return (await import('./cli/program.js')).runProgram(args);
}
