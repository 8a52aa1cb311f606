"""contract_path: how an einsum would be contracted, the same from every server, with nothing run."""

from __future__ import annotations

import secrets
from typing import Any

import grpc
import numpy as np
import opt_einsum
import pytest
from tests.contract.refusals import refusal

import backhaul as bh
from backhaul_proto import codec
from backhaul_proto.v1 import graph_pb2, service_pb2, service_pb2_grpc, tensor_pb2

CHAIN = ("ij,jk,kl,lm->im", (2, 30), (30, 4), (4, 50), (50, 3))
EXPRESSIONS: dict[str, tuple[Any, ...]] = {
    "chain": CHAIN,
    "outer": ("i,j,k->ijk", (3,), (4,), (5,)),
    "hyperedge": ("ia,ja,ka,la->ijkl", (2, 6), (3, 6), (4, 6), (5, 6)),
    "trace": ("ii,ij,jk->k", (3, 3), (3, 4), (4, 5)),
    "ring": ("abc,cde,efg,gha->bdfh", (2, 3, 4), (4, 3, 2), (2, 5, 3), (3, 2, 2)),
    "scalar": ("ab,bc,ca->", (5, 6), (6, 7), (7, 5)),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_steps_and_flops_are_those_that_opt_einsum_counts_for_the_path(
    connection: bh.Connection, name: str
) -> None:
    given = EXPRESSIONS[name]
    found = bh.contract_path(*given, shapes=True, connection=connection)
    path, told = opt_einsum.contract_path(*given, shapes=True, optimize=found.path)
    assert found.path == path
    assert found.flops == told.opt_cost
    assert found.naive_flops == told.naive_cost
    assert found.speedup == pytest.approx(float(told.speedup))
    assert found.largest_intermediate == told.largest_intermediate
    assert len(found.steps) == len(given) - 2
    assert sum(each.multiplications for each in found.steps) <= found.flops


def test_the_path_can_be_fed_back_and_gives_the_same(tape: bh.Tape) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape) for shape in CHAIN[1:]]
    leaves = [tape.leaf(each) for each in arrays]
    found = bh.contract_path(CHAIN[0], *leaves)
    again = bh.contract_path(CHAIN[0], *leaves, path=found.path)
    assert again == found
    result = bh.einsum(CHAIN[0], *leaves, path=found.path)
    np.testing.assert_allclose(
        result.numpy(), opt_einsum.contract(CHAIN[0], *arrays), rtol=1e-12, atol=1e-12
    )


def test_another_search_is_told_of_too(connection: bh.Connection) -> None:
    left_to_right = bh.contract_path(*CHAIN, optimize=False, shapes=True, connection=connection)
    assert left_to_right.flops == 2 * (2 * 30 * 4 + 2 * 4 * 50 + 2 * 50 * 3)
    found = bh.contract_path(*CHAIN, optimize="optimal", shapes=True, connection=connection)
    assert found.flops <= left_to_right.flops
    with pytest.raises(bh.InvalidArgument, match="'fastest'"):
        bh.contract_path(*CHAIN, optimize="fastest", shapes=True, connection=connection)


def test_a_given_path_is_told_as_given(connection: bh.Connection) -> None:
    path = [(0, 3), (0, 1), (0, 1)]
    found = bh.contract_path(*CHAIN, shapes=True, path=path, connection=connection)
    assert found.path == path
    assert found.steps[0].subscripts in ("ij,lm->ijlm", "ij,lm->imjl")
    assert found.largest_intermediate == 2 * 30 * 50 * 3
    assert found.flops > bh.contract_path(*CHAIN, shapes=True, connection=connection).flops


def test_nothing_is_recorded_run_or_opened(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        x, y = tape.leaf(np.ones((2, 3))), tape.leaf(np.ones((3, 4)))
        before = dict(connection.calls)
        found = bh.contract_path("ij,jk->ik", x, y)
        assert connection.calls["ContractPath"] == before.get("ContractPath", 0) + 1
        assert connection.calls["Execute"] == before.get("Execute", 0)
        assert found.steps[0].subscripts == "ij,jk->ik"
        assert tape._recorder.next_id == 3


def test_it_answers_alike_embedded_and_remote(target: str) -> None:
    with bh.connect("embedded") as embedded, bh.connect(target, timeout=60) as remote:
        for given in EXPRESSIONS.values():
            for limit in (None, 1 << 20):
                answers = [
                    bh.contract_path(*given, shapes=True, memory_limit=limit, connection=each)
                    for each in (embedded, remote)
                ]
                assert answers[0] == answers[1]
                assert str(answers[0]) == str(answers[1])


def test_forms_and_dtypes_of_einsum_are_taken(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 3), "f4"))
    single = bh.contract_path("ij,jk->ik", x, np.ones((3, 4), "f4"))
    double = bh.contract_path("ij,jk->ik", tape.leaf(np.ones((2, 3))), np.ones((3, 4)))
    assert (single.value_bytes, double.value_bytes) == (32, 64)
    interleaved = bh.contract_path(x, [0, 1], np.ones((3, 4)), [1, 2], [0, 2])
    assert interleaved.flops == double.flops == 48
    assert bh.contract_path("i->ik", (3,), shapes=True, sizes={"k": 5}).largest_intermediate == 15
    assert bh.contract_path("...j,j", np.ones((4, 5, 6)), [1.0] * 6).flops == 2 * 4 * 5 * 6
    assert bh.contract_path(",ij->ij", 2.0, x).value_bytes == 24
    assert bh.contract_path("ij,(jk,kl)->il", x, np.ones((3, 4)), np.ones((4, 5))).path == [
        (1, 2),
        (0, 1),
    ]


def test_an_einsum_of_one_array(connection: bh.Connection) -> None:
    same = bh.contract_path("ij->ij", (2, 3), shapes=True, connection=connection)
    assert (same.flops, same.naive_flops, same.speedup) == (0, 6, 1.0)
    turned = bh.contract_path("ij->ji", (2, 3), shapes=True, connection=connection)
    assert turned.largest_intermediate == 6
    assert turned.path in ([], [(0,)])


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "EINSUM_SYNTAX": (("ij->->", (2, 3)), {}),
    "EINSUM_OPERAND_COUNT": (("ij,jk", (2, 3)), {}),
    "EINSUM_RANK": (("ijk", (2, 3)), {}),
    "EINSUM_DIMENSION": (("ij,jk", (2, 3), (4, 5)), {}),
    "EINSUM_OUTPUT": (("ij->ik", (2, 3)), {}),
    "INVALID_ATTRIBUTE": (("ij,jk", (2, 3), (3, 5)), {"path": [(0, 7)]}),
    "INVALID_VALUE": (("ij", 3), {}),
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_einsum_refuses_is_refused_at_the_line_without_a_call(
    connection: bh.Connection, reason: str
) -> None:
    args, keywords = WRONG[reason]
    before = connection.calls["ContractPath"]
    with pytest.raises(bh.InvalidArgument) as caught:
        bh.contract_path(*args, shapes=True, connection=connection, **keywords)
    assert caught.value.reason == reason
    assert connection.calls["ContractPath"] == before


def test_released_tensors_and_other_things_than_connections_are_refused(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    tape.release(x)
    with pytest.raises(bh.MissingNode, match="operand 0 of contract_path"):
        bh.contract_path("i->", x)
    wrong: Any = "host:1"
    with pytest.raises(bh.InvalidArgument, match="no connection"):
        bh.contract_path("i->", (2,), shapes=True, connection=wrong)


def test_counts_that_no_machine_reaches_are_told_all_the_same(connection: bh.Connection) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = ",".join(a + b for a, b in zip(letters, letters[1:] + "a", strict=True))
    found = bh.contract_path(f"{pairs}->", *[(1000, 1000)] * 26, shapes=True, connection=connection)
    assert found.naive_flops == 1000**26 * 26
    assert found.largest_intermediate == 10**6
    assert "2.600e+79" in str(found)


def test_the_table_says_what_is_needed(connection: bh.Connection) -> None:
    given = ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
    shown = str(bh.contract_path(*given, shapes=True, connection=connection)).splitlines()
    assert shown[0].split() == ["Naive", "FLOP", "count:", "360"]
    assert shown[1].split() == ["Optimized", "FLOP", "count:", "128"]
    assert shown[3].split() == ["Largest", "intermediate:", "10", "elements"]
    assert shown[-2].split() == ["0", "48", "8", "yes", "ij,jk->ik"]
    assert shown[-1].split() == ["1", "80", "10", "kl,ik->il"]


# Without our client


@pytest.fixture(scope="module")
def stub(target: str) -> Any:
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        yield service_pb2_grpc.BackhaulServiceStub(channel)


def _types(*shapes: tuple[int, ...]) -> list[tensor_pb2.TensorType]:
    return [tensor_pb2.TensorType(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=s) for s in shapes]


def _attribute(subscripts: str) -> graph_pb2.Attribute:
    return graph_pb2.Attribute(name="subscripts", string_value=subscripts)


def test_the_raw_call(stub: Any) -> None:
    answer = stub.ContractPath(
        service_pb2.ContractPathRequest(
            operands=_types((2, 3), (3, 4), (4, 5)), attributes=[_attribute("ij,jk,kl->il")]
        )
    )
    assert [list(each.operands) for each in answer.steps] == [[0, 1], [0, 1]]
    assert [each.multiplications for each in answer.steps] == [24, 40]
    assert [each.elements for each in answer.steps] == [8, 10]
    assert answer.steps[0].subscripts == "ab,bc->ac"
    assert answer.naive_multiplications == 2 * 3 * 4 * 5 * 2
    assert answer.largest_intermediate == 10
    assert answer.value_bytes >= 8 * 10
    assert answer.gradient_bytes >= answer.value_bytes + 8 * (6 + 12 + 20)
    assert answer.hvp_bytes > answer.gradient_bytes
    assert answer.result == _types((2, 5))[0]
    read = codec.read_cost(answer)
    assert (read.steps[1].operands, read.value_bytes) == ((0, 1), answer.value_bytes)


def test_the_raw_call_saturates_what_64_bits_cannot_hold(stub: Any) -> None:
    # The result alone is small; the path goes through an outer product of 2^80 elements.
    shape = (1 << 40, 1)
    path = graph_pb2.IntLists(
        lists=[graph_pb2.IntList(values=[0, 2]), graph_pb2.IntList(values=[0, 1, 2])]
    )
    answer = stub.ContractPath(
        service_pb2.ContractPathRequest(
            operands=_types(shape, shape, shape, shape),
            attributes=[
                _attribute("ax,ay,bx,by->"),
                graph_pb2.Attribute(name="path", int_lists_value=path),
            ],
        )
    )
    assert answer.largest_intermediate == 2**64 - 1
    assert answer.value_bytes == 2**64 - 1
    assert answer.naive_multiplications == 3 * 2.0**80


def test_the_raw_call_refuses_like_a_step(stub: Any) -> None:
    request = service_pb2.ContractPathRequest(
        operands=_types((2, 3), (4, 5)), attributes=[_attribute("ij,jk->ik")]
    )
    status, reason, facts = refusal(lambda: stub.ContractPath(request))
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert (reason, facts["label"]) == ("EINSUM_DIMENSION", "'j'")


def test_a_session_is_opened_with_a_limit_by_either_call(stub: Any) -> None:
    options = service_pb2.SessionOptions(memory_limit=4000)
    ref = service_pb2.SessionRef(id=secrets.token_bytes(16))
    opened = stub.OpenSession(service_pb2.OpenSessionRequest(session=ref, options=options))
    assert opened.limits.session_memory == 4000
    info = stub.GetSession(service_pb2.GetSessionRequest(session=ref))
    assert (info.memory_limit, info.bytes) == (4000, 0)
    more = service_pb2.SessionOptions(memory_limit=8000)
    again = stub.OpenSession(service_pb2.OpenSessionRequest(session=ref, options=more))
    assert again.limits.session_memory == 4000
    other = service_pb2.SessionRef(id=secrets.token_bytes(16))
    answer = stub.Execute(service_pb2.ExecuteRequest(session=other, seq=1, options=options))
    assert answer.limits.session_memory == 4000
    stub.Execute(service_pb2.ExecuteRequest(session=other, seq=2, options=more))
    info = stub.GetSession(service_pb2.GetSessionRequest(session=other))
    assert (info.memory_limit, info.last_seq) == (4000, 2)
