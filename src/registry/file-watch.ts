/** Prompt news of a folder's changes. Only a hint: what is missed is found by the next look. */
import { basename } from 'node:path';
import type { Ms } from '../system/clock.js';

const QUIET_MS: Ms = 20;

/**
 * Calls `wake` soon after anything in `folder` changes that may concern `files` (names in it; undefined: all).
 * Names that begin with `..` always do: volumes of Kubernetes change by the link `..data`.
 * `failed` is called when the folder cannot be watched (any more). Returns what ends the watch.
 */
export function watchFolder(
  folder: string,
  files: ReadonlySet<string> | undefined,
  wake: () => void,
  failed: (reason: string) => void,
): () => void {
  let closed = false;
  let close = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;
  const changed = (name: string): void => {
    if (closed || timer !== undefined) return;
    if (files !== undefined && name !== '' && !name.startsWith('..') && !files.has(name)) return;
    timer = setTimeout(() => {
      timer = undefined;
      wake();
    }, QUIET_MS);
  };
  const start = async (): Promise<void> => {
    const { watch } = await import('chokidar');
    if (closed) return;
    const watcher = watch(folder, {
      depth: 0,
      ignoreInitial: true,
      ignored: (path) => path !== folder && files !== undefined && !files.has(basename(path)),
    });
    close = () => void watcher.close().catch(() => undefined);
    watcher.on('raw', (_event, path) => changed(basename(String(path ?? ''))));
    watcher.on('all', (_event, path) => changed(basename(path)));
    watcher.on('error', (error) => failed(error instanceof Error ? error.message : String(error)));
  };
  start().catch((error: Error) => failed(error.message));
  return () => {
    closed = true;
    clearTimeout(timer);
    close();
  };
}
