import { write } from './write.mjs';

export const dnsdist = {
  key: 'dnsdist',
  title: 'dnsdist',
  program: 'dnsdist',
  version: ['--version'],
  serves: 'cache',
  start({ bench, folder, port, upstream, stale, core }) {
    const config = write(
      folder,
      'dnsdist.conf',
      `setLocal("127.0.0.1:${port}", {maxInFlight=1000})
setACL("127.0.0.0/8")
setSecurityPollSuffix("")
setMaxTCPClientThreads(1)
setMaxTCPConnectionsPerClient(0)
local server = newServer({address="127.0.0.1:${upstream}", name="upstream"${stale ? ', checkInterval=1' : ''}})
${stale ? '' : 'server:setUp()'}
local cache = newPacketCache(2000000, {maxTTL=86400, maxNegativeTTL=86400, staleTTL=${stale ? 3600 : 60}, numberOfShards=1})
getPool(""):setCache(cache)
${stale ? 'setStaleCacheEntriesTTL(86400)' : ''}
`,
    );
    return bench.start(this.path, ['--supervised', '--disable-syslog', '-C', config], { core });
  },
};
