import { write } from './write.mjs';

export const unbound = {
  key: 'unbound',
  title: 'Unbound',
  program: 'unbound',
  version: ['-V'],
  serves: 'cache',
  start({ bench, folder, port, upstream, zone, stale, core }) {
    const config = write(
      folder,
      'unbound.conf',
      `server:
  interface: 127.0.0.1@${port}
  access-control: 127.0.0.0/8 allow
  num-threads: 1
  do-ip6: no
  username: ""
  chroot: ""
  directory: "${folder}"
  pidfile: ""
  use-syslog: no
  logfile: "${folder}/log"
  verbosity: 0
  module-config: "iterator"
  do-not-query-localhost: no
  minimal-responses: no
  msg-cache-size: 512m
  rrset-cache-size: 1g
  so-rcvbuf: 4m
  so-sndbuf: 4m
  incoming-num-tcp: 100
  ${stale ? 'serve-expired: yes' : ''}
remote-control:
  control-enable: no
forward-zone:
  name: "${zone}"
  forward-addr: 127.0.0.1@${upstream}
`,
    );
    return bench.start(this.path, ['-d', '-c', config], { core });
  },
};
