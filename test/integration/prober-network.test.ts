/** The prober in a network that fails it, with endpoints at the other end of a wire: see prober-host/bad-network.ts. */
import { enterOwnNetwork } from './own-network.js';

const reason = enterOwnNetwork(import.meta.url);
const { badNetwork } = await import('./prober-host/bad-network.js');
await badNetwork(reason);
