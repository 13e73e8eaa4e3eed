#!/usr/bin/env node
// CommonJS, since the loader of modules starts the thread pool: its size is read then, and a pool of four would be
// full as soon as a disk hangs under a few files.
process.env.UV_THREADPOOL_SIZE ??= '16';
import('../dist/main.js').then(
  async ({ main }) => {
    process.exitCode = await main(process.argv.slice(2));
  },
  (error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    process.stderr.write(`holdfast: not built yet: run \`npm run build\` first (${error.message})\n`);
    process.exit(1);
  },
);
