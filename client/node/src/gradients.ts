// Answers of pullback and hvp.
import { BackhaulError } from "./errors";
import type { NdArray } from "./ndarray";
import type { Tensor } from "./tensor";

/** Gradients of a loss. */
export class Gradients {
  constructor(
    /** The loss's value. */
    readonly value: NdArray,
    private readonly gradients: ReadonlyMap<number, NdArray>,
  ) {}

  /**
   * The gradient for a tensor, of its shape and dtype.
   *
   * @throws BackhaulError MISSING_GRADIENT: it was not asked for, or the loss does not reach it.
   */
  gradient(tensor: Tensor): NdArray {
    return lookUp(this.gradients, tensor);
  }
}

/** Gradients of a loss, and products of its Hessian with a direction. */
export class HessianProducts extends Gradients {
  constructor(
    value: NdArray,
    gradients: ReadonlyMap<number, NdArray>,
    private readonly products: ReadonlyMap<number, NdArray>,
  ) {
    super(value, gradients);
  }

  /** The part of H·v for a tensor; as `gradient`. */
  product(tensor: Tensor): NdArray {
    return lookUp(this.products, tensor);
  }
}

function lookUp(arrays: ReadonlyMap<number, NdArray>, { node }: Tensor): NdArray {
  const found = arrays.get(node);
  if (found === undefined) {
    throw new BackhaulError(
      `There is no gradient for the tensor ${node}: the loss does not depend on it, or it is no leaf. ` +
        "Name it with { wrt: [...] } to get zeros.",
      { reason: "MISSING_GRADIENT", code: "NOT_FOUND", details: { node: `${node}` } },
    );
  }
  return found;
}
