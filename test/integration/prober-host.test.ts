/** The prober on a host that fails it, with endpoints at the other end of a wire: see prober-host/bad-host.ts. */
import { enterOwnNetwork } from './own-network.js';

const reason = enterOwnNetwork(import.meta.url);
const { badHost } = await import('./prober-host/bad-host.js');
await badHost(reason);
