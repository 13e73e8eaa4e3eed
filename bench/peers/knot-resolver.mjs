import { write } from './write.mjs';

export const knotResolver = {
  key: 'knot-resolver',
  title: 'Knot Resolver',
  program: 'kresd',
  version: ['--version'],
  serves: 'cache',
  start({ bench, folder, port, upstream, zone, stale, core }) {
    const config = write(
      folder,
      'kresd.conf',
      `net.ipv6 = false
net.listen('127.0.0.1', ${port}, { kind = 'dns' })
log_level('crit')
cache.size = 1000*MB
trust_anchors.remove('.')
modules.unload('ta_update')
modules.unload('ta_signal_query')
modules.unload('ta_sentinel')
modules.unload('priming')
modules.unload('detect_time_skew')
modules.unload('detect_time_jump')
policy.add(policy.suffix(policy.FORWARD('127.0.0.1@${upstream}'), policy.todnames({'${zone}.'})))
${stale ? "modules.load('serve_stale < cache')" : ''}
`,
    );
    return bench.start(this.path, ['-n', '-q', '-c', config, folder], { core });
  },
};
