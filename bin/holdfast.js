#!/usr/bin/env node
// CommonJS, since the loader of modules starts the thread pool: its size is read then, and a pool of four would be
// full as soon as a disk hangs under a few files.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`holdfast: Node 20.19 or later is needed, ${process.execPath} is ${process.versions.node}\n`);
  process.exit(1);
}
process.env.UV_THREADPOOL_SIZE ??= '16';
const args = process.argv.slice(2);
run().then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') throw error;
    process.stderr.write(`holdfast: not built yet: run \`npm run build\` first (${error.message})\n`);
    process.exit(1);
  },
);

async function run() {
  const served = args[0] === 'serve' ? require('../dist/serve-main.cjs').serveQuickly(args) : undefined;
  return served ?? (await import('../dist/main.js')).main(args);
}
