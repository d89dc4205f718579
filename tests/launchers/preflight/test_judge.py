from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.config.preflight import Preflight, from_env
from launchers.preflight.finding import Finding
from launchers.preflight.judge import judge_measurements, slow_gpus, slow_pairs
from launchers.preflight.measurements import Pair, Record, Row, behind, record_of, rounds
from launchers.preflight.transport import transports
from launchers.preflight.worker import CollectivePlan

NVLINK, IB = ("P2P/CUMEM",), ("NET/IB",)
NODE_8, NETWORK_2 = 431.0, 189.0


def gang(nodes: int = 2, nproc: int = 8, **change: Any) -> list[Record]:
    """Return a healthy gang of H200 with eight adapters a node."""
    rows = [Row(scope="node", op="all_reduce", size=1 << 30, gbs=NODE_8)]
    rows.append(Row(scope="node", op="all_to_all", size=235 << 20, gbs=0.8 * NODE_8))
    if nodes > 1:
        rows.append(Row(scope="world", op="all_reduce", size=1 << 30, gbs=NETWORK_2))
        rows.append(Row(scope="world", op="all_to_all", size=235 << 20, gbs=40.0))
    pairs = [
        Pair(kind=kind, one=min(a, b), other=max(a, b), gbs=200.0 if kind == "node" else 23.0)
        for kind, each in rounds(nodes, nproc)
        for a, b in each
    ]
    common: dict[str, Any] = {
        "node": "a",
        "card": "NVIDIA H200",
        "tflops": 750.0,
        "network": "NET/IB",
    }
    common |= {"inside": NVLINK, "across": IB if nodes > 1 else (), **change}
    return [
        Record(
            rank=rank,
            node_rank=rank // nproc,
            pod=f"r-node-0-{rank // nproc}",
            device=f"GPU {rank % nproc} GPU-{rank}",
            rows=tuple(rows) if rank % nproc == 0 else (),
            pairs=tuple(pair for pair in pairs if pair.one == rank),
            **common,
        )
        for rank in range(nodes * nproc)
    ]


def wanted(**env: str) -> Preflight:
    return from_env({"DPO_NETWORK_TRANSPORT": "NET/IB", "DPO_NETWORK_FLOOR_GBS": "160", **env})


def found(
    records: Sequence[Record], preflight: Preflight, *, adapters: int = 8, **env: str
) -> list[Finding]:
    nodes = max(record.node_rank for record in records) + 1
    places: dict[str, Any] = dict.fromkeys(("folder", "result", "pod", "node"), "")
    sizes: dict[str, Any] = {"nodes": nodes, "nproc": len(records) // nodes, "node_rank": 0}
    plan = CollectivePlan(**places, **sizes, seconds=1, cuda=True)
    return judge_measurements(records, plan, preflight, env, adapters=adapters)


def bad(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.state != "ok"]


def with_row(records: list[Record], scope: str, op: str, gbs: float, rank: int = 0) -> list[Record]:
    rows = [
        replace(r, gbs=gbs) if (r.scope, r.op) == (scope, op) else r for r in records[rank].rows
    ]
    records[rank] = replace(records[rank], rows=tuple(rows))
    return records


def with_pair(records: list[Record], rank: int, kind: str, gbs: float) -> list[Record]:
    pairs = [replace(p, gbs=gbs) if p.kind == kind else p for p in records[rank].pairs]
    records[rank] = replace(records[rank], pairs=tuple(pairs))
    return records


def test_a_healthy_gang_passes() -> None:
    assert bad(found(gang(), wanted())) == []
    assert bad(found(gang(nodes=1), from_env({}))) == []
    assert bad(found(gang(nodes=2, nproc=1, inside=()), from_env({}))) == []


@pytest.mark.parametrize(
    ("gbs", "state"), [(370.0, "ok"), (360.0, "warning"), (220.0, "warning"), (210.0, "failed")]
)
def test_a_slow_node_is_named(gbs: float, state: str) -> None:
    findings = bad(found(with_row(gang(), "node", "all_reduce", gbs, rank=8), wanted()))
    assert [f.state for f in findings] == ([] if state == "ok" else [state])
    for finding in findings:
        assert finding.who == "node of rank 8 (r-node-0-1 on a, GPU 0 GPU-8)"
        assert f"all_reduce {gbs} GB/s, the floor is 366.3" in finding.seen
        assert finding.seen.endswith("; the slowest pair is ranks 8 and 9 with 200.0 GB/s")


@pytest.mark.parametrize(
    ("row", "env", "state"),
    [
        (("world", "all_reduce", 159.0), {}, "warning"),
        (("world", "all_reduce", 90.0), {}, "failed"),
        (("world", "all_reduce", 159.0), {"DPO_PREFLIGHT_STRICT": "1"}, "failed"),
        (("world", "all_to_all", 5.0), {}, "failed"),
        (("node", "all_to_all", 60.0), {}, "failed"),
    ],
)
def test_one_slow_operation_is_reported(
    row: tuple[str, str, float], env: dict[str, str], state: str
) -> None:
    [finding] = bad(found(with_row(gang(), *row), wanted(**env)))
    assert (finding.state, finding.seen.split()[0]) == (state, row[1])
    assert finding.who.startswith("network" if row[0] == "world" else "node of rank 0 ")


def test_a_floor_of_the_values_replaces_that_of_the_gpu_model() -> None:
    assert bad(found(gang(), wanted(DPO_PREFLIGHT_NODE_FLOOR="440")))[0].state == "warning"
    assert bad(found(gang(), wanted(DPO_PREFLIGHT_NODE_FLOOR="5000")))[0].state == "failed"


def test_sockets_where_the_fabric_is_infiniband_are_an_error() -> None:
    [finding] = bad(found(gang(across=("NET/Socket",)), wanted()))
    assert (finding.state, finding.check) == ("failed", "transport")
    assert finding.seen == "NCCL sends over NET/Socket, not NET/IB"
    assert finding.who.startswith("rank 0 (r-node-0-0 on a, GPU 0")


def test_vendors_names_and_nvlink_between_nodes_are_no_error() -> None:
    assert bad(found(gang(across=("NET/IBext_v8",)), wanted())) == []
    records = gang(inside=("P2P/MNNVL",), across=("P2P/MNNVL",), network="NET/Socket")  # GB200
    assert [f for f in bad(found(records, wanted())) if f.check == "transport"] == []


def test_sockets_despite_adapters_are_an_error_unless_chosen() -> None:
    records, any_fabric = gang(across=("NET/Socket",)), from_env({})
    [finding] = bad(found(records, any_fabric))
    assert (finding.check, "8 RDMA devices" in finding.seen) == ("transport", True)
    assert bad(found(records, any_fabric, adapters=0)) == []
    assert bad(found(records, any_fabric, NCCL_NET="Socket")) == []
    assert bad(found(records, any_fabric, NCCL_IB_DISABLE="1")) == []


def test_a_node_without_nvlink_is_an_error_on_a_gpu_model_that_has_it() -> None:
    records = gang()
    records[3] = replace(records[3], inside=("NET/Socket", "P2P/CUMEM"))
    [finding] = bad(found(records, wanted()))
    assert "NET/Socket" in finding.seen and "NVLink" in finding.seen
    assert finding.who.startswith("rank 3 ")
    other = gang(nodes=1, card="NVIDIA L40S", inside=("SHM/direct",))
    assert {f.state for f in bad(found(other, from_env({})))} == {"warning"}


def test_a_slow_pair_is_named_on_both_ends() -> None:
    records = with_pair(gang(), 9, "node", 160.0)
    [finding] = bad(found(records, wanted()))
    assert (finding.state, finding.check) == ("failed", "pairs")
    assert "rank 9 (r-node-0-1 on a, GPU 1" in finding.who
    assert "rank 10 (r-node-0-1 on a, GPU 2" in finding.who


def test_pairs_over_sockets_only_warn() -> None:
    records = with_pair(gang(across=("NET/Socket",)), 2, "network", 10.0)
    assert [f.state for f in slow_pairs(records, strict=False) if f.state != "ok"] == ["warning"]
    assert [f.state for f in slow_pairs(records, strict=True) if f.state != "ok"] == ["failed"]


@given(
    st.integers(0, 7), st.floats(0.3, 0.80), st.lists(st.floats(0.97, 1.03), min_size=8, max_size=8)
)
def test_a_gpu_that_lost_a_fifth_is_named_among_healthy_ones(
    slow: int, share: float, noise: list[float]
) -> None:
    records = gang(nodes=1)
    speeds = [750 * each * (share if rank == slow else 1) for rank, each in enumerate(noise)]
    records = [replace(r, tflops=speed) for r, speed in zip(records, speeds, strict=True)]
    failures = [f for f in slow_gpus(records) if f.state == "failed"]
    assert [f.who for f in failures] == [records[slow].name]


@given(st.lists(st.floats(0.96, 1.04), min_size=16, max_size=16))
def test_healthy_gpus_and_links_never_fail(noise: list[float]) -> None:
    records = []
    for record, each in zip(gang(), noise, strict=True):
        pairs = tuple(replace(p, gbs=p.gbs * each) for p in record.pairs)
        records.append(replace(record, tflops=record.tflops * each, pairs=pairs))
    assert [f for f in found(records, wanted()) if f.state == "failed"] == []


@given(st.integers(1, 5), st.integers(1, 9))
def test_every_rank_meets_its_neighbours_once_a_round(nodes: int, nproc: int) -> None:
    met: set[frozenset[int]] = set()
    for _, pairs in rounds(nodes, nproc):
        ranks = [rank for pair in pairs for rank in pair]
        assert len(ranks) == len(set(ranks))
        met |= {frozenset(pair) for pair in pairs}
    for rank in range(nodes * nproc):
        node, local = divmod(rank, nproc)
        near = node * nproc + (local + 1) % nproc
        far = (node + 1) % nodes * nproc + local
        assert near == rank or frozenset((rank, near)) in met
        assert far == rank or frozenset((rank, far)) in met


def test_records_travel_as_json() -> None:
    for record in gang(nodes=1, nproc=2):
        assert record_of(record.fields()) == record


LOG = """
h:1:9 [0] NCCL INFO Assigned NET plugin Socket to comm
h:1:9 [0] NCCL INFO Using network Socket
h:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
h:1:9 [0] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/IPC
h:1:9 [0] NCCL INFO Channel 02/0 : 1[1] -> 2[0] [receive] via NET/Socket/0
h:1:9 [0] NCCL INFO Channel 02/0 : 2[c7000] -> 1[8d000] [send] via NET/AWS Libfabric/3/GDRDMA
h:1:9 [0] NCCL INFO Channel 03/0 : 2[0] -> 0[0] [send] via NET/IB/2(1)/GDRDMA
"""


def test_nccls_log_distinguishes_near_links_from_far_ones() -> None:
    inside, across, network = transports(LOG, node_rank=1, nproc=2)
    assert inside == {"P2P/CUMEM", "P2P/IPC"}
    assert across == {"NET/Socket", "NET/AWS Libfabric", "NET/IB"}
    assert network == "NET/Socket"


def test_the_ranks_that_are_behind_are_named() -> None:
    done = dict.fromkeys(range(16), "world")
    assert behind({**done, 5: "node"}, 16) == "rank 5 hangs in node"
    late = behind(dict.fromkeys(range(8), "world"), 16)
    assert late == "ranks 8, 9, 10, 11, 12, 13, 14, 15 have not started"
    assert behind({**done, 3: "torn"}, 16) == "rank 3 has not started"
