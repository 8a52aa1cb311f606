import assert from "node:assert/strict";
import { test } from "node:test";

import { ARRAY, type AttributeInput, dtype, index, slice, toWireAttributes } from "../attributes";

const wire = (value: AttributeInput) => {
  const [attribute] = toWireAttributes({ a: value });
  const { name, ...fields } = attribute ?? { name: "" };
  assert.equal(name, "a");
  return fields;
};

test("values take the field of their kind", () => {
  assert.deepEqual(wire(-1), { intValue: "-1" });
  assert.deepEqual(wire(2n ** 63n - 1n), { intValue: "9223372036854775807" });
  assert.deepEqual(wire(0.5), { floatValue: 0.5 });
  assert.deepEqual(wire(-0), { floatValue: -0 });
  assert.deepEqual(wire(1e300), { floatValue: 1e300 });
  assert.deepEqual(wire(Number.NaN), { floatValue: Number.NaN });
  assert.deepEqual(wire(true), { boolValue: true });
  assert.deepEqual(wire("ij->i"), { stringValue: "ij->i" });
  assert.deepEqual(wire(dtype("complex64")), { dtypeValue: "DATA_TYPE_COMPLEX64" });
  assert.deepEqual(wire([0, 1n]), { intsValue: { values: ["0", "1"] } });
  assert.deepEqual(wire([]), { intsValue: { values: [] } });
  assert.deepEqual(wire([[0, 1], [2]]), {
    intListsValue: { lists: [{ values: ["0", "1"] }, { values: ["2"] }] },
  });
});

test("an index has positions, slices and marks", () => {
  assert.deepEqual(wire(index(0, slice(1, undefined, -1), null, "...", ARRAY)), {
    indexValue: {
      items: [
        { at: "0" },
        { slice: { start: "1", step: "-1" } },
        { mark: "INDEX_MARK_NEW_AXIS" },
        { mark: "INDEX_MARK_ELLIPSIS" },
        { mark: "INDEX_MARK_ARRAY" },
      ],
    },
  });
});

test("attributes stand in the order of their names, without those that are undefined", () => {
  assert.deepEqual(
    toWireAttributes({ b: 1, c: undefined, a: 2 }).map(({ name }) => name),
    ["a", "b"],
  );
});

test("what is no integer is refused where integers stand", () => {
  assert.throws(() => wire([0.5]), TypeError);
  assert.throws(() => index(2 ** 53), TypeError);
});
