/** What a person at the demo can try next. Every line works as printed. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import type { Style } from '../system/terminal.js';
import { BACKEND_PROGRAM, LAUNCHER, type Stage, ZONE } from './stage.js';

export function guide(stage: Stage, style: Style): string {
  const { address, port } = stage.dns;
  const own = `node ${shortest(LAUNCHER)}`;
  const hasDig = onPath('dig');
  const ask = (name: string, type: string) =>
    hasDig
      ? `dig @${address} -p ${port} ${name} ${type} +noall +answer +comments`
      : `${own} query ${name} ${type} --server ${address} --port ${port}`;
  const last = stage.backends[1]!;
  const away = `${stage.registryFile}.away`;
  const line = (command: string) => `    ${style.bold(command)}`;
  return [
    `${style.good('holdfast is up.')} Three backends of two services, a resolver, a prober. In another terminal, from this folder:`,
    '',
    '  Ask it:',
    line(ask(`orders.${ZONE}`, 'SRV')),
    line(ask(`orders.${ZONE}`, 'A')),
    line(ask(`_http._tcp.billing.${ZONE}`, 'SRV')),
    ...(hasDig ? [line(`${own} query orders.${ZONE} SRV --server ${address} --port ${port}`)] : []),
    '',
    '  Kill a backend, and it leaves the answers within seconds; start it, and it is back:',
    ...stage.backends.map(({ name }) => `${line(`kill ${stage.pid(name)}`)}   ${style.dim(`# ${name}`)}`),
    line(`node ${shortest(BACKEND_PROGRAM)} ${last.name} ${last.address} ${last.port}`),
    '',
    '  Take the registry away: answers stay, and a backend that dies still leaves them. Bring it back:',
    line(`mv ${stage.registryFile} ${away}`),
    line(`mv ${away} ${stage.registryFile}`),
    '',
    '  Ask why, and how it stands:',
    line(`${own} explain orders.${ZONE} --config ${stage.configFile}`),
    line(`${own} status --config ${stage.configFile}`),
    '',
    style.dim(`  Everything is in ${stage.folder}, logs too. Ctrl-C ends the demo and removes it.`),
    '',
  ].join('\n');
}

function shortest(file: string): string {
  const fromHere = relative(process.cwd(), file);
  const path = fromHere.startsWith('..') ? file : fromHere;
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
