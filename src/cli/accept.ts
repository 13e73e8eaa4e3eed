/** `holdfast accept`: a person's word that what the guard holds may go (R9). */

import { plain } from '../system/terminal.js';
import { askResolver } from './ask.js';
import { complain, EXIT_FAILED, EXIT_OK, print, warnUnsaved } from './output.js';

export async function accept(
  name: string,
  options: { readonly config: string; readonly zone?: string; readonly json?: boolean },
): Promise<number> {
  const asked = await askResolver(options.config, '/v1/accept', {
    body: { name, ...(options.zone === undefined ? {} : { zone: options.zone }) },
  });
  if (!asked.ok) return asked.exit;
  const { released, unsaved } = (asked.body ?? {}) as Record<string, unknown>;
  if (typeof released !== 'number' || !Number.isInteger(released)) {
    complain('the resolver did not say how many endpoints it let go: look at `holdfast status`');
    return EXIT_FAILED;
  }
  const of = name === '*' ? '' : ` of ${plain(name)}`;
  if (options.json) print(JSON.stringify(asked.body, null, 2));
  else if (released === 0) print(`the guard holds nothing${of}, so there was nothing to let go`);
  else print(`let go: ${released} endpoint${released === 1 ? '' : 's'}${of}`);
  warnUnsaved(unsaved);
  return EXIT_OK;
}
