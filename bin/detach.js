// Starts a program in a session of its own, without any descriptor of ours, and ends. For holdfast, where the shell
// has no setsid(1), or was given descriptors that it cannot close.
const { spawn } = require('node:child_process');
const { closeSync, readdirSync, readlinkSync } = require('node:fs');

// Node hands on no descriptor up to 15, nor any in a row with those. Of the others all are closed but its own: those
// without a name, and pipes of which it has both ends.
const links = new Map();
try {
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (Number(name) > 2) links.set(Number(name), readlinkSync(`/proc/self/fd/${name}`));
    } catch {
      // That of the folder itself.
    }
  }
} catch {
  // No /proc here.
}
for (const [descriptor, link] of links) {
  const both = link.startsWith('pipe:') && [...links.values()].filter((other) => other === link).length > 1;
  if (both || link.startsWith('anon_inode:')) continue;
  try {
    closeSync(descriptor);
  } catch {
    // Closed already.
  }
}
const [program, ...args] = process.argv.slice(2);
spawn(program, args, { detached: true, stdio: 'ignore' })
  .on('error', () => {})
  .unref();
