/** The configuration of a host with one zone and nothing else. */
import { ZONE } from './program.js';

/**
 * @param registry settings of the registry, as YAML in braces has them
 * @param zone further lines of the zone
 */
export function zoneConfig(port: number, registry: string, zone: readonly string[]): string {
  const lines = [
    'version: 1',
    `listen: ["127.0.0.1:${port}"]`,
    'stateDir: state',
    'runDir: run',
    'zones:',
    `  - name: ${ZONE}`,
    `    registry: { ${registry} }`,
    ...zone.map((line) => `    ${line}`),
  ];
  return `${lines.join('\n')}\n`;
}
