#!/usr/bin/env node
// The pool that looks after files must not be full when a disk hangs; its size is read when it is first used.
process.env.UV_THREADPOOL_SIZE ??= '16';
const { main } = await import('../dist/main.js').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.stderr.write(`holdfast: not built yet: run \`npm run build\` first (${error.message})\n`);
  process.exit(1);
});
process.exitCode = await main(process.argv.slice(2));
