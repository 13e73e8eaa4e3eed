/** A question as it stands on the command line. */
import { nameToWire } from '../dns/names.js';
import { typeNumber } from '../dns/type-names.js';
import { plain } from '../system/terminal.js';
import { complain } from './output.js';

export interface CommandQuestion {
  readonly name: string;
  /** In upper case. */
  readonly type: string;
  readonly typeNumber: number;
}

/** Without a type: SRV for names in the form of RFC 2782, A for others. Undefined, and said why, when it is none. */
export function readQuestion(name: string, type: string | undefined): CommandQuestion | undefined {
  const word = (type ?? (name.startsWith('_') ? 'SRV' : 'A')).toUpperCase();
  const number = typeNumber(word);
  if (number === undefined) complain(`unknown record type ${plain(word)} (A, AAAA, SRV, TXT, ... or TYPE123)`);
  else if (name === '' || nameToWire(name) === undefined) complain(`${plain(name) || "''"} is not a domain name`);
  else return { name, type: word, typeNumber: number };
  return undefined;
}
