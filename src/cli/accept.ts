/** `holdfast accept`: a person's word that what the guard holds may go (R9). */

import { plain } from '../system/terminal.js';
import { askResolver } from './ask.js';
import { EXIT_OK, print } from './output.js';

export async function accept(
  name: string,
  options: { readonly config: string; readonly zone?: string; readonly json?: boolean },
): Promise<number> {
  const asked = await askResolver(options.config, '/v1/accept', {
    body: { name, ...(options.zone === undefined ? {} : { zone: options.zone }) },
  });
  if (!asked.ok) return asked.exit;
  const { released } = asked.body as { released: number };
  if (options.json) print(JSON.stringify(asked.body, null, 2));
  else if (released === 0) print(`nothing of ${plain(name)} was held`);
  else print(`let go: ${released} endpoint${released === 1 ? '' : 's'} of ${plain(name)}`);
  return EXIT_OK;
}
