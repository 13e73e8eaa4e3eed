/** Prompt news of a folder's changes. Only a hint: what is missed is found by the next look. */
import { watch } from 'node:fs';
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
  try {
    // The folder and not the file: a file that is renamed over leaves its watcher behind. Only names are looked at, so
    // a log that grows beside the registry costs next to nothing.
    const watcher = watch(folder, { persistent: false }, (_event, name) => changed(name ?? ''));
    watcher.on('error', (error) => failed(error.message));
    close = () => watcher.close();
  } catch (error) {
    failed(error instanceof Error ? error.message : String(error));
  }
  return () => {
    closed = true;
    clearTimeout(timer);
    close();
  };
}
