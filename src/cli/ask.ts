/** What `status`, `explain` and `accept` have in common: find the resolver, ask it, say what went wrong. */
import { askControl } from '../ask/control.js';
import { findConfig } from './find-config.js';
import { complain, EXIT_FAILED, EXIT_NOT_RUNNING, EXIT_USAGE } from './output.js';

export type Asked =
  | { readonly ok: true; readonly body: unknown; readonly from: 'control' | 'public'; readonly runDir: string }
  | {
      readonly ok: false;
      readonly exit: number;
      /** Where it was looked for. */
      readonly runDir?: string;
    };

export async function askResolver(
  configFile: string,
  path: string,
  options: { readonly body?: unknown; readonly orPublic?: boolean } = {},
): Promise<Asked> {
  const config = await findConfig(configFile);
  if (!config) return { ok: false, exit: EXIT_USAGE };
  const answer = await askControl(config.runDir, path, options);
  const { runDir } = config;
  if (answer.kind === 'answer') return { ok: true, body: answer.body, from: answer.from, runDir };
  complain(answer.error);
  return { ok: false, exit: answer.kind === 'not-running' ? EXIT_NOT_RUNNING : EXIT_FAILED, runDir };
}
