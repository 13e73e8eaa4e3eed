import { write } from './write.mjs';

export const dnsmasq = {
  key: 'dnsmasq',
  title: 'dnsmasq',
  program: 'dnsmasq',
  version: ['-v'],
  serves: 'cache',
  start({ bench, folder, port, upstream, zone, stale, core }) {
    const config = write(
      folder,
      'dnsmasq.conf',
      `port=${port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
server=/${zone}/127.0.0.1#${upstream}
cache-size=2000000
dns-forward-max=10000
user=root
pid-file=
log-facility=${folder}/log
${stale ? 'use-stale-cache' : ''}
`,
    );
    return bench.start(this.path, ['-k', '-C', config], { core });
  },
};
