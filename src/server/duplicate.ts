/** A descriptor of an inherited socket that its user may close. */
import { type InheritedSocket, isOpen } from './inherited-sockets.js';
import { loadLinuxCalls } from './linux-calls.js';

/**
 * Without native calls the inherited descriptor itself: once it is closed, the address is the service manager's until
 * the process starts again. Undefined when it was closed before.
 */
export function duplicateOf(socket: InheritedSocket): number | undefined {
  if (!isOpen(socket)) return undefined;
  const calls = loadLinuxCalls();
  const fd = typeof calls === 'string' ? -1 : calls.duplicate(socket.fd);
  return fd < 0 ? socket.fd : fd;
}
