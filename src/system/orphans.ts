/**
 * The first process of a container is the parent of all whose own has ended, and they stay in the table of processes
 * until it asks about them: Node asks only about those that it started itself.
 */
import { withLibc } from './libc.js';

/** `waitpid(2)`, where this is the first process and the C library is to be had. */
const waitpid =
  process.pid === 1 ? withLibc((libc) => libc.func('int waitpid(int, void *, int)') as Wait) : 'it has a parent';
const WNOHANG = 1;

type Wait = (pid: number, status: null, options: number) => number;

/** Process groups of programs of ours that have ended. */
const groups = new Set<number>();

/** The program that led this group has ended, and the others of it are ending: asks about them, and those of before. */
export function reapGroup(group: number): void {
  if (typeof waitpid === 'string') return;
  groups.add(group);
  for (const one of groups) {
    let answer: number;
    do answer = waitpid(-one, null, WNOHANG);
    while (answer > 0);
    // Nobody is left of it; otherwise somebody has not ended yet.
    if (answer < 0) groups.delete(one);
  }
}
