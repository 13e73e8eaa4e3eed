/**
 * Sockets that the service manager has bound for us (sd_listen_fds(3)): it keeps them open while we restart, so that
 * what clients send meanwhile waits in them.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import type { SocketPlan } from './listen-plan.js';
import { decodeProcAddress } from './port-holder.js';

export interface InheritedSocket {
  readonly fd: number;
  readonly protocol: 'udp' | 'tcp';
  /** Canonical text. */
  readonly address: string;
  readonly port: number;
  /** `socket:[N]`, as /proc has it: the number of a descriptor may have passed to another socket. */
  readonly link: string;
}

const FIRST_FD = 3;

/** The sockets that `env` tells of, once: they are for this process and not for those it starts. */
export function takeInherited(env: NodeJS.ProcessEnv = process.env, pid = process.pid): InheritedSocket[] {
  const { LISTEN_FDS, LISTEN_PID } = env;
  for (const name of ['LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES']) delete env[name];
  const count = Number(LISTEN_FDS);
  if (Number(LISTEN_PID) !== pid || !Number.isInteger(count) || count < 1) return [];
  const byLink = readTables();
  return Array.from({ length: count }, (_, i) => FIRST_FD + i).flatMap((fd) => {
    const link = linkOf(fd);
    const found = link === undefined ? undefined : byLink.get(link);
    return link === undefined || found === undefined ? [] : [{ fd, link, ...found }];
  });
}

/** Whether its descriptor still is this socket. */
export function isOpen({ fd, link }: Pick<InheritedSocket, 'fd' | 'link'>): boolean {
  return linkOf(fd) === link;
}

export class InheritedSockets {
  readonly #sockets: readonly InheritedSocket[];

  constructor(sockets: readonly InheritedSocket[] = takeInherited()) {
    this.#sockets = sockets;
  }

  /** Those of `plans` that are there, by plan key. */
  forPlans(protocol: 'udp' | 'tcp', plans: readonly SocketPlan[]): Record<string, InheritedSocket> {
    const found: Record<string, InheritedSocket> = {};
    for (const plan of plans) {
      const socket = this.#sockets.find((one) => one.protocol === protocol && serves(one, plan));
      if (socket) found[plan.key] = socket;
    }
    return found;
  }

  /** Those that no plan has: nobody answers what is sent to them. */
  unused(plans: readonly SocketPlan[]): InheritedSocket[] {
    return this.#sockets.filter((socket) => !plans.some((plan) => serves(socket, plan)));
  }
}

function serves({ address, port }: InheritedSocket, plan: SocketPlan): boolean {
  return plan.address === address && plan.port === port;
}

function linkOf(fd: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

/** Bound UDP sockets and listening TCP sockets of this network namespace. */
function readTables(): Map<string, Pick<InheritedSocket, 'protocol' | 'address' | 'port'>> {
  const sockets = new Map<string, Pick<InheritedSocket, 'protocol' | 'address' | 'port'>>();
  for (const protocol of ['udp', 'tcp'] as const)
    for (const suffix of ['', '6']) {
      for (const line of read(`/proc/self/net/${protocol}${suffix}`).split('\n').slice(1)) {
        const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/);
        if (inode === undefined || (protocol === 'tcp' && state !== '0A')) continue;
        const [hex = '', port = ''] = local.split(':');
        sockets.set(`socket:[${inode}]`, {
          protocol,
          address: decodeProcAddress(hex),
          port: Number.parseInt(port, 16),
        });
      }
    }
  return sockets;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
