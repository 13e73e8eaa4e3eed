/** Long work in steps: each tells about how many rows it was about. Whoever takes them may do something else meanwhile. */
export type Steps<Result = void> = Generator<number, Result>;

export function toTheEnd<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Takes steps of about `rows` rows in all. Returns whether there are more. */
export function goOn(steps: Steps<unknown>, rows: number): boolean {
  for (let left = rows; left > 0; ) {
    const { done, value } = steps.next();
    if (done) return false;
    left -= value;
  }
  return true;
}
