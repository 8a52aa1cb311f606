// Attributes of ops: JavaScript's values, and helpers for those that need to say what they are.
import { type DType, wireName } from "./dtypes";
import type { WireAttribute, WireAttributeValue, WireIndexItem } from "./messages";

/** What an attribute may be given as. */
export type AttributeInput =
  | number
  | bigint
  | boolean
  | string
  | readonly Integer[]
  | readonly (readonly Integer[])[]
  | WireAttributeValue;

/** Attributes of an op by name; undefined is as one that is left out. */
export type Attributes = Readonly<Record<string, AttributeInput | undefined>>;

type Integer = number | bigint;

/** An entry of an index: a position, a slice, null for a new axis, "..." , or an array among the operands. */
export type IndexEntry = Integer | WireIndexItem | null | "...";

/** The attribute of an element type, as `{ dtype: dtype("float32") }`. */
export const dtype = (name: DType): WireAttributeValue => ({ dtypeValue: wireName(name) });

/** The attribute of what stands between the brackets of x[...], with NumPy's meaning. */
export const index = (...entries: readonly IndexEntry[]): WireAttributeValue => ({
  indexValue: { items: entries.map(indexItem) },
});

/** start:stop:step of an index; undefined leaves a part out. */
export function slice(start?: Integer, stop?: Integer, step?: Integer): WireIndexItem {
  const parts: NonNullable<WireIndexItem["slice"]> = {};
  if (start !== undefined) parts.start = integer(start);
  if (stop !== undefined) parts.stop = integer(stop);
  if (step !== undefined) parts.step = integer(step);
  return { slice: parts };
}

/** The place of an integer array among the operands, in an index. */
export const ARRAY: WireIndexItem = { mark: "INDEX_MARK_ARRAY" };

/** Attributes as they travel, in the order of their names: equal calls have equal bytes. */
export const toWireAttributes = (given: Attributes): WireAttribute[] =>
  Object.entries(given)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([name, value]) => (value === undefined ? [] : [{ name, ...attributeValue(value) }]));

function attributeValue(value: AttributeInput): WireAttributeValue {
  switch (typeof value) {
    case "bigint":
      return { intValue: integer(value) };
    case "number":
      // The server takes an integer for a number, so only what is none has to be a float.
      return Number.isSafeInteger(value) && !Object.is(value, -0)
        ? { intValue: integer(value) }
        : { floatValue: value };
    case "boolean":
      return { boolValue: value };
    case "string":
      return { stringValue: value };
  }
  if (!Array.isArray(value)) return value as WireAttributeValue;
  const lists = value as readonly (Integer | readonly Integer[])[];
  if (lists.some((each) => Array.isArray(each))) {
    return { intListsValue: { lists: lists.map((each) => ({ values: [each].flat().map(integer) })) } };
  }
  return { intsValue: { values: (lists as readonly Integer[]).map(integer) } };
}

function indexItem(entry: IndexEntry): WireIndexItem {
  if (entry === null) return { mark: "INDEX_MARK_NEW_AXIS" };
  if (entry === "...") return { mark: "INDEX_MARK_ELLIPSIS" };
  return typeof entry === "object" ? entry : { at: integer(entry) };
}

function integer(value: Integer): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new TypeError(`${value} is no integer that a number holds exactly; use a bigint`);
  }
  return value.toString();
}
