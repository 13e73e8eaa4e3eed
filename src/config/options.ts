/**
 * How an option is declared: once, with its type, default and description. The zod schema that checks a file and the
 * reference in docs/configuration.md are both made from the declaration.
 */
import * as z from 'zod';
import { type KeyPath, nearest, showValue } from './errors.js';

/** Whether a checked section always has the option: it is required, or it has a default. */
export type Presence = 'always' | 'maybe';

export interface Option<T = unknown, P extends Presence = Presence> {
  readonly schema: z.ZodType<T>;
  /** As the reference names the type, such as `duration`. */
  readonly kind: string;
  readonly description: string;
  /** As a file would write it. */
  readonly default?: unknown;
  /** As the reference shows it, when `default` itself depends on the host. */
  readonly defaultText?: string;
  readonly required: boolean;
  /** The options of a section, shown under its own heading. */
  readonly children?: Options;
  /** Only for the compiler. */
  readonly presence?: P;
}

export type Options = Readonly<Record<string, Option>>;

type ValueOf<O> = O extends Option<infer T, Presence> ? T : never;
type Simplify<T> = { [K in keyof T]: T[K] };

/** What a checked section looks like. */
export type Values<S extends Options> = Simplify<
  {
    [K in keyof S as S[K] extends Option<unknown, 'always'> ? K : never]: ValueOf<S[K]>;
  } & {
    [K in keyof S as S[K] extends Option<unknown, 'always'> ? never : K]?: ValueOf<S[K]> | undefined;
  }
>;

/** What a checked section looks like where every option may be left out and none has a default. */
export type PartialValues<S extends Options> = { [K in keyof S]?: ValueOf<S[K]> | undefined };

interface Given {
  readonly default?: unknown;
  readonly defaultText?: string;
  readonly required?: true;
}
type PresenceOf<G> = G extends { required: true } | { default: unknown } ? 'always' : 'maybe';

/** What a value should have been. `at` is set when the fault is deeper than the value itself. */
export class Wrong {
  readonly message: string;
  readonly at: KeyPath;
  constructor(message: string, at: KeyPath = []) {
    this.message = message;
    this.at = at;
  }
}

/** A fault that says what was expected, and what was there. */
export function expected(what: string, got: unknown): Wrong {
  return new Wrong(got === undefined ? `missing, expected ${what}` : `expected ${what}, got ${showValue(got)}`);
}

/** A zod type out of a function that gives the value or says what is wrong with it. */
function checked<T>(parse: (input: unknown) => T | Wrong | readonly Wrong[]): z.ZodType<T> {
  return z.unknown().transform((input, context) => {
    const result = parse(input);
    const wrongs =
      result instanceof Wrong ? [result] : Array.isArray(result) && result[0] instanceof Wrong ? result : [];
    for (const wrong of wrongs as Wrong[]) {
      context.issues.push({ code: 'custom', message: wrong.message, input, path: [...wrong.at] });
    }
    return wrongs.length > 0 ? z.NEVER : (result as T);
  });
}

function declare<T, const G extends Given>(
  kind: string,
  schema: z.ZodType<T>,
  description: string,
  given: G,
  children?: Options,
): Option<T, PresenceOf<G>> {
  return {
    schema,
    kind,
    description,
    ...(given.default === undefined ? {} : { default: given.default }),
    ...(given.defaultText === undefined ? {} : { defaultText: given.defaultText }),
    required: given.required === true,
    ...(children ? { children } : {}),
  };
}

/** An option of one value. `parse` gets whatever the file has. */
export function scalar<T, const G extends Given>(
  kind: string,
  parse: (input: unknown) => T | Wrong,
  description: string,
  given: G,
): Option<T, PresenceOf<G>> {
  return declare(kind, checked(parse), description, given);
}

/** One of a few words. */
export function choice<const W extends string, const G extends Given>(
  words: readonly W[],
  description: string,
  given: G,
): Option<W, PresenceOf<G>> {
  const what = words.length === 1 ? words[0]! : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
  return declare(
    words.map((word) => `\`${word}\``).join(', '),
    checked((input) => {
      if (words.includes(input as W)) return input as W;
      const meant = typeof input === 'string' ? nearest(input, words) : undefined;
      const wrong = expected(what, input);
      return meant === undefined ? wrong : new Wrong(`${wrong.message} (did you mean ${meant}?)`);
    }),
    description,
    given,
  );
}

/** A list, each item checked by `item`. */
export function list<T, const G extends Given & { readonly min?: number }>(
  item: Option<T>,
  example: string,
  description: string,
  given: G,
): Option<T[], PresenceOf<G>> {
  const schema = checked<unknown[]>((input) => {
    if (!Array.isArray(input)) return expected(`a list such as ${example}`, input);
    if (input.length < (given.min ?? 0)) return new Wrong(`expected a list of at least one, such as ${example}`);
    return input;
  }).pipe(z.array(item.schema)) as unknown as z.ZodType<T[]>;
  return declare(`list of ${item.kind}`, schema, description, given, item.children);
}

/** A map whose keys are the user's own words, each value checked by `item`. */
export function map<T, const G extends Given>(
  item: Option<T>,
  checkKey: (key: string) => string | undefined,
  description: string,
  given: G,
): Option<Record<string, T>, PresenceOf<G>> {
  const schema = checked<Record<string, unknown>>((input) => {
    if (!isMap(input)) return expected('a map', input);
    const wrongs = Object.keys(input).flatMap((key) => {
      const problem = checkKey(key);
      return problem === undefined ? [] : [new Wrong(problem, [key])];
    });
    return wrongs.length > 0 ? (wrongs as never) : input;
  }).pipe(z.record(z.string(), item.schema)) as unknown as z.ZodType<Record<string, T>>;
  return declare(`map of ${item.kind}`, schema, description, given, item.children);
}

/** A section with defaults. Keys that begin with `x-` are ignored, other unknown ones refused. */
export function section<const S extends Options, const G extends Given>(
  children: S,
  description: string,
  given: G,
): Option<Values<S>, PresenceOf<G>> {
  return declare('section', sectionSchema(children, true) as z.ZodType<Values<S>>, description, given, children);
}

/** The same section where everything may be left out and nothing has a default: settings laid over others. */
export function overlay<const S extends Options>(children: S, description: string): Option<PartialValues<S>, 'maybe'> {
  return declare('section', sectionSchema(children, false) as z.ZodType<PartialValues<S>>, description, {}, children);
}

/** A section whose options depend on the word at `type`. */
export function variant<V>(
  kinds: Readonly<Record<string, Options>>,
  description: string,
  example: string,
): Option<V, 'maybe'> {
  const schemas = new Map(Object.entries(kinds).map(([kind, children]) => [kind, sectionSchema(children, true)]));
  const type = choice(Object.keys(kinds), 'Which kind.', { required: true });
  const schema = z.unknown().transform((input, context) => {
    const forward = (issues: readonly z.core.$ZodIssue[], path: readonly PropertyKey[]): never => {
      for (const issue of issues) {
        context.issues.push({ code: 'custom', message: issue.message, input, path: [...path, ...issue.path] });
      }
      return z.NEVER;
    };
    if (!isMap(input)) {
      context.issues.push({ code: 'custom', message: expected(`a map such as ${example}`, input).message, input });
      return z.NEVER;
    }
    const word = type.schema.safeParse(input.type);
    if (!word.success) return forward(word.error.issues, ['type']);
    const { type: _, ...rest } = input;
    const result = schemas.get(word.data)!.safeParse(rest);
    return result.success ? { type: word.data, ...(result.data as object) } : forward(result.error.issues, []);
  }) as unknown as z.ZodType<V>;
  return declare('section', schema, description, {});
}

function sectionSchema(children: Options, withDefaults: boolean): z.ZodType<unknown> {
  const names = Object.keys(children);
  const shape: Record<string, z.ZodType> = {};
  for (const [name, option] of Object.entries(children)) {
    if (withDefaults && option.required) shape[name] = option.schema;
    else if (withDefaults && option.default !== undefined) {
      shape[name] = z.prefault(option.schema, option.default as never);
    } else shape[name] = z.optional(option.schema);
  }
  return checked<Record<string, unknown>>((input) => {
    if (!isMap(input)) return expected('a map', input);
    const known: Record<string, unknown> = {};
    const wrongs: Wrong[] = [];
    for (const [key, value] of Object.entries(input)) {
      if (Object.hasOwn(children, key)) known[key] = value;
      else if (!key.startsWith('x-')) wrongs.push(new Wrong(unknownKey(key, names), [key]));
    }
    return wrongs.length > 0 ? (wrongs as never) : known;
  }).pipe(z.object(shape));
}

function unknownKey(key: string, names: readonly string[]): string {
  const meant = nearest(key, names);
  return meant === undefined ? `unknown key (known here: ${names.join(', ')})` : `unknown key, did you mean ${meant}?`;
}

function isMap(input: unknown): input is Record<string, unknown> {
  return typeof input === 'object' && input !== null && !Array.isArray(input);
}
