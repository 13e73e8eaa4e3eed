import type { KeyPath } from './errors.js';

/** A fault between options. */
export class ResolveFault {
  readonly path: KeyPath;
  readonly problem: string;
  constructor(path: KeyPath, problem: string) {
    this.path = path;
    this.problem = problem;
  }
}
