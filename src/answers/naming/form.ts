/** What an unknown name could be, by its structure alone (R25). */

/** It can never be. */
export const NO_FORM = 0;
export const NAME_FORM = 1;
/** An address's. */
export const TARGET_FORM = 2;
/** It may be, and this server would not know: the registry's own name server answers such names. */
export const FOREIGN_FORM = 3;

export type Form = typeof NO_FORM | typeof NAME_FORM | typeof TARGET_FORM | typeof FOREIGN_FORM;
