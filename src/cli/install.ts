/** `holdfast install` and `holdfast uninstall`: what they would do, and on a word, doing it. */
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askDns, NoReply } from '../ask/dns.js';
import { showListen } from '../config/addresses.js';
import { ConfigError } from '../config/errors.js';
import { loadQuickly } from '../config/lastgood.js';
import type { Config, ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import { applyPlan, pending, takeBack, type WayBack, waysBack } from '../install/apply.js';
import { type Change, type FileState, InstallError, readState } from '../install/files.js';
import { type Before, isInstalled, readJournal, removeRemains } from '../install/journal.js';
import { type Mode, planInstall } from '../install/plan.js';
import { namedServers } from '../install/resolv-conf.js';
import { runsSystemd } from '../install/service-control.js';
import type { Program } from '../install/units.js';
import { plain } from '../system/terminal.js';
import { complain, EXIT_FAILED, EXIT_OK, EXIT_USAGE, print } from './output.js';
import { DEFAULT_CONFIG_FILE } from './serve-arguments.js';

interface HostOptions {
  /** Absent: the default one, below the root. */
  readonly config?: string;
  readonly root: string;
  readonly yes: boolean;
}

const ANSWER_MS = 5_000;
const DNS_PORT = 53;
const HIDDEN = /^\/(?:home|root|run\/user|tmp|var\/tmp)\//;

export async function install(options: HostOptions & { readonly mode?: Mode }): Promise<number> {
  return reporting(async () => {
    const root = resolve(options.root);
    const { config, program } = await readConfig(root, options.config);
    const plan = planInstall({ root, config, program, ...(options.mode ? { mode: options.mode } : {}) });
    const changes = pending(root, plan);
    for (const hint of plan.hints) print(`note: ${hint}`);
    if (changes.length === 0 && isInstalled(readJournal(root))) {
      print('nothing to do: it is installed');
      return EXIT_OK;
    }
    if (!options.yes) {
      for (const change of changes) showChange(root, change);
      if (runsSystemd(root))
        print('start   holdfast.socket, holdfast.service, holdfast-prober.service, now and at each boot\n');
      print('Nothing has been changed. With --yes it is done; `holdfast uninstall` is the way back.');
      return EXIT_OK;
    }
    await applyPlan(plan, { root, answers: () => answers(config), tell: print }).catch((error: unknown) => {
      if (!(error instanceof InstallError) || readJournal(root) === undefined) throw error;
      throw new InstallError(
        `${error.message}\nWhat was done until then is taken back by \`holdfast uninstall --yes\`.`,
      );
    });
    print('installed; `holdfast uninstall` is the way back');
    return EXIT_OK;
  });
}

export async function uninstall(options: HostOptions & { readonly force: boolean }): Promise<number> {
  return reporting(async () => {
    const root = resolve(options.root);
    const journal = readJournal(root);
    if (!isInstalled(journal)) {
      if (options.yes) removeRemains(root);
      print('nothing to do: it is not installed');
      return EXIT_OK;
    }
    const listen = await listenOf(root, options.config);
    const ways = waysBack(root, journal, listen, options.force);
    if (!options.yes) {
      for (const way of ways) showWayBack(way);
      print('Nothing has been changed. With --yes it is done.');
      return EXIT_OK;
    }
    if (takeBack(root, ways, journal, print)) {
      print('uninstalled: the host is as it was');
      return EXIT_OK;
    }
    complain('some files were left as they are, see above');
    return EXIT_FAILED;
  });
}

async function reporting(work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InstallError) && !(error instanceof ConfigError)) throw error;
    complain(error.message);
    return error instanceof ConfigError ? EXIT_USAGE : EXIT_FAILED;
  }
}

async function readConfig(root: string, given: string | undefined): Promise<{ config: Config; program: Program }> {
  const usual = join(root, DEFAULT_CONFIG_FILE);
  const file = given === undefined ? usual : resolve(given);
  const { config } = await loadQuickly(file);
  const folder = dirname(dirname(fileURLToPath(import.meta.url)));
  const program: Program = {
    command: [process.execPath, join(folder, 'bin', 'holdfast.js')],
    units: join(folder, 'conf', 'systemd'),
    ...(file === usual ? {} : { config: file }),
  };
  const hidden = [...program.command, file].find((path) => HIDDEN.test(path));
  if (hidden !== undefined && runsSystemd(root))
    throw new InstallError(
      `${hidden} is in a folder that services do not see (ProtectHome=, PrivateTmp=): put it elsewhere`,
    );
  return { config, program };
}

/** To tell whether a resolv.conf still names us; a configuration that is bad by now must not stand in the way. */
async function listenOf(root: string, given: string | undefined): Promise<readonly ListenAddress[]> {
  try {
    return (await loadQuickly(given === undefined ? join(root, DEFAULT_CONFIG_FILE) : resolve(given))).config.listen;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ address: '127.0.0.1', port: 53 }];
  }
}

/** Rejects when nobody answers where the host is to ask. */
async function answers({ listen, zones }: Config): Promise<void> {
  const server = { address: namedServers(listen)[0] ?? listen[0]!.address, port: listen[0]!.port };
  if (namedServers(listen).length > 0) server.port = DNS_PORT;
  const until = performance.now() + ANSWER_MS;
  let problem = '';
  while (performance.now() < until) {
    try {
      const { packet } = await askDns(
        { name: zones[0]!.name, type: TYPE.SOA },
        { server, tcp: false, timeoutMs: 1_000 },
      );
      // A zone that has had no list yet is SERVFAIL, and ours all the same.
      if (packet.header.aa || packet.header.rcode === RCODE.SERVFAIL) return;
      problem = 'somebody else answers there';
    } catch (error) {
      if (!(error instanceof NoReply)) throw error;
      problem = error.message;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new InstallError(
    `this server does not answer on ${showListen(server)} (${problem}), so the host is not handed over to it: ` +
      'start `holdfast serve --last-good`, then run this again',
  );
}

function showChange(root: string, { path, wanted, why }: Change): void {
  print(`write   ${path}: ${why}`);
  if (wanted.kind === 'link') print(`        a link to ${wanted.target}`);
  else if (wanted.bytes.length < 1_000)
    for (const line of wanted.bytes.toString('utf8').trimEnd().split('\n')) print(`        | ${plain(line)}`);
  print(`back    ${backText(beforeOf(root, path))}\n`);
}

/** What an uninstall would find: the notes of an earlier install, or what is there now. */
function beforeOf(root: string, path: string): Before | FileState {
  const noted = readJournal(root)?.entries.find((entry) => entry.path === path);
  return noted?.before ?? readState(join(root, path));
}

function backText(before: Before | FileState): string {
  if (before.kind === 'absent') return 'uninstall removes it';
  if (before.kind === 'link') return `uninstall puts back the link to ${plain(before.target)}`;
  return 'bytes' in before
    ? `uninstall puts back the file as it is now, ${before.bytes.length} bytes`
    : 'uninstall puts back the file as it was';
}

function showWayBack({ entry, todo, reason }: WayBack): void {
  const words = {
    restore: 'restore',
    remove: 'remove ',
    nothing: 'keep   ',
    theirs: 'leave  ',
    leave: 'leave  ',
  } as const;
  const why = reason ?? (todo === 'nothing' ? 'it is as it was' : todo === 'restore' ? backText(entry.before) : '');
  print(`${words[todo]} ${entry.path}${why === '' ? '' : `: ${why}`}`);
}
