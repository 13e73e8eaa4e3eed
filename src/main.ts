/** The command line's way in. `serve`, as services start it, has another (serve-main.ts). */
import { runProgram } from './cli/program.js';

/** Runs the command line. Resolves with the exit code: 0 done, 1 failed, 2 wrong usage or configuration. */
export function main(args: readonly string[]): Promise<number> {
  return runProgram(args);
}
