/**
 * Runs a test's file once more in namespaces of its own, where the network is empty and /etc/resolv.conf may be mounted
 * over. To be called before tap is loaded: what comes of the second run is the first one's result.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const MARK = 'HOLDFAST_TEST_OWN_NETWORK';
const NAMESPACES = ['--net', '--mount', '--propagation', 'private'];

/** Undefined in the namespaces; why there are none, where they cannot be made. Otherwise it does not return. */
export function enterOwnNetwork(file: string): string | undefined {
  if (process.env[MARK] === '1') {
    for (const words of [
      ['link', 'set', 'lo', 'up'],
      // As on a host with a network: the C library asks for no family of which there is but the loopback address.
      ['addr', 'add', '10.255.0.1/24', 'dev', 'lo'],
      // An address of the public network.
      ['addr', 'add', '203.0.113.7/32', 'dev', 'lo'],
      ['addr', 'add', 'fd00:ffff::1/64', 'dev', 'lo', 'nodad'],
    ])
      if (spawnSync('ip', words).status !== 0) return `ip ${words.join(' ')} fails`;
    return undefined;
  }
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root on Linux may make namespaces';
  if (spawnSync('ip', ['-V']).status !== 0) return 'no ip here (Debian: iproute2)';
  if (spawnSync('unshare', [...NAMESPACES, 'true']).status !== 0) return 'unshare is not permitted here';
  const again = [process.execPath, ...process.execArgv, fileURLToPath(file)];
  const { status } = spawnSync('unshare', [...NAMESPACES, ...again], {
    stdio: 'inherit',
    env: { ...process.env, [MARK]: '1' },
  });
  process.exit(status ?? 1);
}

/** Puts a file over one of the system, for this test alone. What is written to `file` later shows there, too. */
export function mountOver(file: string, system: string): void {
  const { status, stderr } = spawnSync('mount', ['--bind', file, system], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`mount: ${stderr}`);
}
