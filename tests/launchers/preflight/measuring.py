"""One node of a gang that measures over gloo: ``python measuring.py PLAN PORT``; needs torch."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from launchers.config.rank import Place
from launchers.exits import LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.preflight.collective import measure
from launchers.preflight.worker import CollectivePlan
from launchers.system.process import descendants

if __name__ == "__main__":
    plan = CollectivePlan(**json.loads(sys.argv[1]))
    place = Place(
        rank=plan.node_rank, nodes=plan.nodes, master_addr="127.0.0.1", master_port=1, source="test"
    )
    found: dict[str, object]
    try:
        records = measure(plan, place, int(sys.argv[2]), os.environ, PeerMonitor())
        found = {"records": [record.fields() for record in records]}
    except LaunchError as error:
        found = {"code": int(error.code), "cause": error.cause}
    print("\n" + json.dumps({**found, "left": descendants(os.getpid())}))
