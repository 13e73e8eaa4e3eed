/** `holdfast drain`: takes endpoints out of the answers of this host, or gives them back (R10). */
import { plain } from '../system/terminal.js';
import { askResolver } from './ask.js';
import { complain, EXIT_FAILED, EXIT_OK, print, warnUnsaved } from './output.js';

export async function drain(
  name: string,
  options: { readonly config: string; readonly zone?: string; readonly undo?: boolean; readonly json?: boolean },
): Promise<number> {
  const { zone, undo = false } = options;
  const body = { name, undo, ...(zone === undefined ? {} : { zone }) };
  const asked = await askResolver(options.config, '/v1/drain', { body });
  if (!asked.ok) return asked.exit;
  const { endpoints, changed, answered, unsaved } = (asked.body ?? {}) as Record<string, unknown>;
  if (typeof endpoints !== 'number' || typeof changed !== 'number' || typeof answered !== 'number') {
    complain('the resolver did not say what it drained: look at `holdfast status`');
    return EXIT_FAILED;
  }
  if (options.json) print(JSON.stringify(asked.body, null, 2));
  else print(sentence(plain(name), undo, endpoints, changed, answered));
  warnUnsaved(unsaved);
  return EXIT_OK;
}

function sentence(name: string, undo: boolean, endpoints: number, changed: number, answered: number): string {
  const of = `${endpoints} endpoint${endpoints === 1 ? '' : 's'} of ${name}`;
  if (undo) return changed === 0 ? `nobody drained the ${of}` : `no longer drained: ${of}`;
  const done = changed === 0 ? `drained before: ${of}` : `drained: ${of}`;
  if (answered === 0) return done;
  return `${done}; ${answered} answered all the same, since nothing else is left (R11)`;
}
