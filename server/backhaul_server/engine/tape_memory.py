"""The memory of a tape: what its arrays take, and what a question will take, before it is asked.

A prediction walks the nodes that the loss reaches as the passes will (`passes`), with the bytes of arrays
in place of arrays. Nodes that a block is to make are walked too: `sketch` makes them without values. A
step counts as if the cotangents of all its operands were wanted, which ``wrt`` may make too much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from backhaul_server.engine.checks import Described
from backhaul_server.engine.engine import PreparedCall
from backhaul_server.engine.node import Node
from backhaul_server.engine.passes import route


class Held(NamedTuple):
    """What nodes and all that they keep alive hold.

    Attributes:
        bytes: of their arrays; memory that several share is counted once.
        gradient: the sum over the nodes of what their cotangents take (`Need.gradient`).
        hvp: the same on duals (`Need.hvp`).
    """

    bytes: int
    gradient: int
    hvp: int


class Planned(NamedTuple):
    """A step that is to be run.

    Attributes:
        call: what it runs; None for a source.
        operands: the numbers of its operands.
        tangent: of a leaf that is made with one.
    """

    call: PreparedCall | None
    operands: Sequence[int]
    tangent: Any = None


class Peak(NamedTuple):
    """The most memory that a pass takes beside what the tape holds, and the node that takes most of it.

    ``answers`` is the part of it that all answers together take, at most.
    """

    bytes: int
    node: Node
    node_bytes: int
    answers: int


def reached(nodes: Iterable[Node]) -> list[Node]:
    """The nodes and all that they keep alive."""
    found = {id(node): node for node in nodes}
    stack = list(found.values())
    while stack:
        for each in stack.pop().inputs:
            if id(each) not in found:
                found[id(each)] = each
                stack.append(each)
    return list(found.values())


def held_by(nodes: Iterable[Node]) -> Held:
    """What the nodes hold, counted."""
    owners: dict[int, int] = {}
    gradient = hvp = 0
    for node in reached(nodes):
        for array in _arrays((node.value, node.tangent, node.operands, node.residual)):
            owner = owner_of(array)
            owners[id(owner)] = nbytes_of(owner)
        if node.call is not None:
            gradient += node.call.need.gradient
            hvp += node.call.need.hvp
    return Held(sum(owners.values()), gradient, hvp)


def _arrays(given: Iterable[Any]) -> Iterator[Any]:
    """The arrays among these, which may be None, or tuples and lists of such."""
    for each in given:
        if isinstance(each, tuple | list):
            yield from _arrays(each)
        elif each is not None:
            yield each


def nbytes_of(array: Any) -> int:
    """Bytes of an array's elements. The array API has no name for it."""
    known: int | None = getattr(array, "nbytes", None)
    if known is not None:
        return known
    xp, dtype = array.__array_namespace__(), array.dtype
    if xp.isdtype(dtype, "bool"):
        bits = 8
    elif xp.isdtype(dtype, "integral"):
        bits = xp.iinfo(dtype).bits
    else:
        bits = xp.finfo(dtype).bits * (2 if xp.isdtype(dtype, "complex floating") else 1)
    nbytes: int = array.size * bits // 8
    return nbytes


def owner_of(array: Any) -> Any:
    """The array whose memory this one looks into."""
    while hasattr(base := getattr(array, "base", None), "nbytes"):
        array = base
    return array


def sketch(
    steps: Iterable[Planned],
    results: Sequence[Described | None],
    inputs: Sequence[Node],
    base_id: int,
) -> list[Node | None]:
    """The nodes that steps will make, without their values.

    Args:
        steps: in order.
        results: one entry a result; None for an id that stays unused.
        inputs: what the steps' operands count first; then the results.
        base_id: id of the first result.
    """
    slots: list[Node | None] = list(inputs)
    serial = max((node.serial for node in inputs), default=0)

    def add(
        inputs_: tuple[Node, ...], call: PreparedCall | None, needs: Sequence[bool]
    ) -> Node | None:
        number = len(slots) - len(inputs)
        kind = results[number]
        if kind is None:
            slots.append(None)
            return None
        node = Node(call, inputs_, None, kind.aval, kind.requires_grad, serial, (), needs)
        node.id = base_id + number
        slots.append(node)
        return node

    for call, numbers, tangent in steps:
        serial += 1
        if call is None:
            source = add((), None, ())
            if source is not None:
                source.tangent = tangent
            continue
        operands = tuple([node for i in numbers if (node := slots[i]) is not None])
        needs = [node.requires_grad for node in operands]
        flows = call.flows and True in needs
        if not call.several:
            add(operands if flows else (), call, needs)
            continue
        whole = Node(call, operands, None, call.results[0], True, serial, (), needs)
        for i, differentiable in enumerate(call.differentiable):
            serial += 1
            leads = flows and differentiable
            node = add((whole,) if leads else (), None, ())
            if node is not None and leads:
                node.output = i
                whole.id = whole.id or node.id
    return slots[len(inputs) :]


def pullback_peak(loss: Node, wrt: Sequence[Node] | None, count: int) -> Peak:
    """The peak of a pullback with a number of cotangents; see `Tape.pullback`."""
    return _peak(loss, wrt, None, count)


def hvp_peak(
    loss: Node, wrt: Sequence[Node] | None, directions: Sequence[Collection[Node]]
) -> Peak:
    """The peak of an hvp along directions, each given by its leaves; see `Tape.hvp`.

    Without directions, along the leaves' own tangents. All of them together stand for the widest.
    """
    leaves = {leaf for direction in directions for leaf in direction}
    return _peak(loss, wrt, leaves, max(1, len(directions)))


def pushforward_peak(output: Node, directions: Sequence[Collection[Node]]) -> Peak:
    """The peak of a pushforward, at most; directions as in `hvp_peak`. See `Tape.pushforward`."""
    order, _, _ = route(output, None)
    moving = _moving(order, {leaf for direction in directions for leaf in direction})
    tangents = sum(_own(node) for node in moving)
    needs = [(node.call.need.hvp, node) for node in moving if node.call is not None]
    most_bytes, most = max(needs, key=lambda each: each[0], default=(0, output))
    answers = max(1, len(directions)) * output.aval.nbytes
    return Peak(tangents + most_bytes + answers, most, most_bytes, answers)


def _peak(loss: Node, wrt: Sequence[Node] | None, leaves: set[Node] | None, count: int) -> Peak:
    order, wanted, needed = route(loss, wrt)
    moving = _moving(order, leaves)
    tangents = sum(_own(node) for node in moving if node.call is not None)
    cotangents = {loss: loss.aval.nbytes}
    duals: set[Node] = set()
    live = peak = loss.aval.nbytes
    most, most_bytes = loss, 0
    for node in order:
        ct = cotangents.pop(node, None)
        if ct is None:
            continue
        call, inputs = node.call, node.inputs
        if call is None:
            if node.output is not None:
                whole = inputs[0]
                cotangents[whole] = cotangents.get(whole, 0) + ct
                if node in duals:
                    duals.add(whole)
            continue
        dual = node in moving or node in duals
        needs = node.needs if needed is None else [each in needed for each in inputs]
        sent = {each for each, need in zip(inputs, needs, strict=True) if need}
        if sent:
            need = call.need.hvp - _own(node) if dual else call.need.gradient
            sums = sum(each.aval.nbytes * (1 + dual) for each in sent if each in cotangents)
            peak = max(peak, live + need + sums)
            if need > most_bytes:
                most, most_bytes = node, need
            for each in sent:
                before = cotangents.get(each, 0)
                after = each.aval.nbytes * (1 + (dual or each in duals))
                cotangents[each] = after
                live += after - before
                if dual:
                    duals.add(each)
        if wanted is None or node not in wanted:
            live -= ct
    answers = _answer_bytes(order, wanted) * (1 if leaves is None else 2)
    most_of_all = max(peak, answers) + tangents + (count - 1) * answers
    return Peak(most_of_all, most, most_bytes, count * answers)


def _moving(order: Sequence[Node], leaves: set[Node] | None) -> set[Node]:
    """The nodes that will have a tangent; none when no leaf is to have one (None)."""
    if leaves is None:
        return set()
    moving = leaves or {node for node in order if node.tangent is not None}
    for node in reversed(order):
        if not moving.isdisjoint(node.inputs):
            moving.add(node)
    return moving


def _own(node: Node) -> int:
    """Bytes of the tangents that stand for a node while an hvp goes on."""
    call = node.call
    if call is None:
        return 0
    return call.need.kept + sum(each.nbytes for each in call.results)


def _answer_bytes(order: Sequence[Node], wanted: set[Node] | None) -> int:
    """Bytes of one set of gradients."""
    if wanted is not None:
        return sum(node.aval.nbytes for node in wanted)
    return sum(node.aval.nbytes for node in order if node.call is None and node.output is None)
