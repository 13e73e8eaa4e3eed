/** Lets the event loop read what the kernel holds already: resolves when two turns in a row brought nothing, or at `until` (monotonic ms). */
export async function quiet(progress: () => number, until: number): Promise<void> {
  for (let before = Number.NaN; before !== progress() && performance.now() < until; ) {
    before = progress();
    await turn();
    await turn();
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
