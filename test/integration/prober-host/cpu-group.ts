/** A control group with next to no CPU time, of either version of cgroups. */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const PERIOD_US = 1_000_000;
const ONE = '/sys/fs/cgroup/cpu';
const TWO = '/sys/fs/cgroup';

export class CpuGroup {
  readonly #folder: string;
  readonly #root: string;

  private constructor(root: string, folder: string) {
    this.#root = root;
    this.#folder = folder;
  }

  /** `share`: of one core. A string says why there can be none here. */
  static make(name: string, share: number): CpuGroup | string {
    const quota = Math.round(PERIOD_US * share);
    const tries: [string, readonly (readonly [string, string])[]][] = [
      [
        ONE,
        [
          ['cpu.cfs_period_us', `${PERIOD_US}`],
          ['cpu.cfs_quota_us', `${quota}`],
        ],
      ],
      [TWO, [['cpu.max', `${quota} ${PERIOD_US}`]]],
    ];
    let reason = '';
    for (const [root, settings] of tries) {
      const folder = join(root, name);
      try {
        mkdirSync(folder, { recursive: false });
        for (const [file, value] of settings) {
          // A plain folder takes any file; a group has these from the beginning.
          readFileSync(join(folder, file));
          writeFileSync(join(folder, file), value);
        }
        return new CpuGroup(root, folder);
      } catch (error) {
        reason = String(error);
        try {
          rmdirSync(folder);
        } catch {}
      }
    }
    return `no CPU group can be made: ${reason}`;
  }

  add(pid: number): void {
    writeFileSync(join(this.#folder, 'cgroup.procs'), `${pid}`);
  }

  /** Takes the process out, and removes the group. */
  end(pid: number): void {
    try {
      writeFileSync(join(this.#root, 'cgroup.procs'), `${pid}`);
    } catch {}
    rmdirSync(this.#folder);
  }
}
