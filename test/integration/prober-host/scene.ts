/** What is probed in these tests. */
import { FarSide } from './far-side.js';

export const CHECK = '{ type: tcp, interval: 500ms, timeout: 300ms, pinned: true }';
/** R16 looks at how many services and networks fail. */
export const SERVICES = Object.fromEntries(['a', 'b', 'c', 'd'].map((name, i) => [name, FarSide.endpoints(i, 20)]));
