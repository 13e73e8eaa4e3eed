/** Run by a test as the first process of a PID namespace: what programs of exec checks leave running does not pile up. */
import { readdirSync, readFileSync } from 'node:fs';
import { PROBES } from '../src/prober/probes/probe.js';
import { never, target, until } from './prober-fixture.js';

const exec = (script: string, timeout = 1_000) =>
  PROBES.exec(target({ type: 'exec', timeout, command: ['/bin/sh', '-c', script] }), never);

/** Processes that have ended and that nobody has asked about. */
function dead(): number {
  return readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && / Z /.test(stat(entry))).length;
}

function stat(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}

const kinds: string[] = [];
for (let i = 0; i < 3; i++) kinds.push((await exec('sleep 3972 & sleep 3972 & exit 0')).kind);
kinds.push((await exec('sleep 3972 & sleep 3972', 100)).kind);
process.stdout.write(`as ${process.pid}: ${kinds.join(' ')}\n`);
await until(() => dead() === 0);
process.stdout.write('nobody is left\n');
