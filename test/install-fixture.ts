/** A folder that stands for a host. */
import { spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import { root as project } from './root.js';

export const PROGRAM = {
  command: ['/usr/bin/node', '/opt/holdfast/bin/holdfast.js'],
  units: join(project, 'conf', 'systemd'),
};

export const ZONES = 'zones: [{ name: svc.internal, registry: { type: file, path: services.yaml } }]';

export const FORWARD = 'forward: { resolvConf: resolv.conf }';

export const OLD = 'search corp.example\n nameserver 192.0.2.1\nnameserver 2001:db8::1\noptions edns0\n';

export type Files = Record<string, string | { readonly link: string }>;

export class Folder {
  readonly root: string;

  constructor(t: Test, files: Files, config = `version: 1\n${FORWARD}\n${ZONES}\n`) {
    this.root = t.testdir({});
    this.put({ '/etc/holdfast/holdfast.yaml': config, ...files });
  }

  put(files: Files): void {
    for (const [path, content] of Object.entries(files)) {
      const full = join(this.root, path);
      mkdirSync(dirname(full), { recursive: true });
      if (path.endsWith('/')) mkdirSync(full, { recursive: true });
      else if (typeof content === 'string') writeFileSync(full, content);
      else symlinkSync(content.link, full);
    }
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), 'utf8');
  }

  /** Every file, link and folder with its mode and content. */
  all(): string[] {
    const names = readdirSync(this.root, { recursive: true, encoding: 'utf8' }).sort();
    return names.map((name) => {
      const full = join(this.root, name);
      const stats = lstatSync(full);
      const mode = (stats.mode & 0o7777).toString(8);
      if (stats.isSymbolicLink()) return `${name} -> ${readlinkSync(full)}`;
      return stats.isDirectory() ? `${name}/ ${mode}` : `${name} ${mode} ${readFileSync(full, 'utf8')}`;
    });
  }

  run(command: 'install' | 'uninstall', ...args: string[]): { code: number | null; out: string; err: string } {
    const launcher = join(project, 'bin', 'holdfast.js');
    const { status, stdout, stderr } = spawnSync(process.execPath, [launcher, command, '--root', this.root, ...args], {
      encoding: 'utf8',
    });
    return { code: status, out: stdout, err: stderr };
  }
}

export const root = process.getuid?.() === 0;
