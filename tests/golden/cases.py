"""What the command line is asked, and with which files: one row a case, read by test_golden_commands.

The language of the lines is that of transcripts.py. ``files`` is the directory of inputs/ that is copied.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A conversation in a directory of its own: its lines see what those before them have left there."""

    name: str
    files: str
    lines: str
    masks: tuple[tuple[str, str], ...] = ()
    cluster: str = ""
    """The file of inputs/clusters/ whose objects the cluster has that the lines are said to."""


N1 = "--topology topology.json --config nova.conf --host n1"
GUEST = "00000000-0000-0000-0000-000000000001"
GUESTS = "--provider provider.json --guests guests.json"
AGE = (r"\d+[smhd] (?=old|ago)", "AGE ")

CASES = [
    Case(
        "calls",
        "",
        """
        --version
        nosuch
        explain nosuch
        explain reason UnknownModel
        nodes -o xml
        nodes --kubeconfig none
        nodes
        explain node
        explain node n1 --kubeconfig none
        config
        config check none.yaml
        config check f --key x
        config check f --largest-amplification 1,5
        topology --root none
        plan
        plan --from dump.json --from-openb a b
        plan --from none.json
        profile
        profile --prometheus http://localhost --history f
        profile --prometheus ftp://x
        check metrics
        check metrics --prometheus localhost:9090 --nodes none
        check metrics --prometheus http://u:secret@x/?a --nodes none
        calibrate --model
        calibrate file
        calibrate --repeats 2
        audit --root .
        audit --reason Nonsense
        agent --metrics-listen nowhere
        agent --interval 0.1s
        agent --interval soon
        agent --no-nri --nri-socket s
        agent --root /nonexistent
        agent --kubeconfig none --no-nri --root .
        agent restore --root .
        manager --kubeconfig none
        manager --kubeconfig none --metrics-listen nowhere
        manager --largest-amplification 0.5
        scheduler --kubeconfig none
        scheduler --listen nowhere
        report
        report --cluster --from dump.json
        report --from none.json
        up --for soon
        up --for 0s
        up --nodes 0
        up --from x --from-openb x y
        up --from x --nodes 3
        up --from none.json
        up --from-openb none.csv none.csv
        up --scenario none.yaml
        up --kubeconfig-out none/kubeconfig
        up --report none/report.html
        up --scenario outage --report report.html
        compute request
        compute pin --flavor none.json
        compute inventory --placement-url http://x --os-cloud y
        compute run --config none.conf
        """,
        ((r"'Nonsense' is not one of .*", "'Nonsense' is not one of REASONS"),),
    ),
    Case(
        "scheduler-config",
        "",
        """
        scheduler config
        scheduler config --pods all
        scheduler config --pods owned,profiled --weight 6
        scheduler config --url https://10.0.0.1:443 --ca-file /etc/ca.pem --server-name corewise-scheduler
        scheduler config --url nowhere
        """,
    ),
    Case(
        "calibrate-model",
        "calibrate",
        """
        calibrate --model a.json b.json c.json
        calibrate --model - < a.json
        calibrate --model words.json
        calibrate --model unknown.json
        calibrate --model none.json
        """,
    ),
    Case(
        "colocation",
        "colocation",
        """
        config check batch.yaml
        config check bad.yaml
        config check bad.yaml -o json
        config check overlap.yaml
        config check everything.yaml
        config check dump.json
        explain pod --file job.yaml --from dump.json
        explain pod --file job.yaml --from dump.json -o yaml
        explain pod --file job.yaml --from dump.json --offline-pods refuse
        explain pod --file job.yaml --from dump.json --offline-pods leave
        explain pod --file online.yaml --from dump.json
        explain pod --file of-class.yaml --from misspelt.json
        explain pod --file hugepages.yaml --from dump.json
        explain pod --file batch.yaml --from dump.json
        explain pod jobs/late --from dump.json
        explain pod
        explain pod default/web --file job.yaml
        """,
    ),
    Case(
        "config-check",
        "config",
        """
        config check block.yaml
        config check block.yaml -o json
        config check - < block.yaml
        config check two-entries.json --nodes nodes.json
        config check two-entries.json --nodes block.yaml
        config check nodes.json
        config check good.yaml
        config check good.yaml -o json
        config check good.yaml --largest-amplification 1.10
        config check bad.yaml
        config check bad.yaml -o json
        config check bad.yaml --key oversubscription-config
        config check tab.yaml
        config check cut.json
        config check no-block.yaml
        config check twice.yaml
        config check misspelt.yaml
        config check other-name.yaml
        config check empty-key.yaml
        config check pod.yaml
        config check enable.json
        config check enable.json --key resource-amplification-config
        config check ratio.json
        config check names.yaml --nodes mixed-cluster.json
        config check names.yaml --nodes mixed-cluster.json -o json
        config check names.yaml --nodes cluster.json
        config check names.yaml --nodes nodes.json
        config check - --nodes -
        config check names.yaml --nodes cluster.json --cluster
        config check names.yaml --context here
        """,
    ),
    Case(
        "config-starter",
        "config",
        """
        config starter
        config starter --nodes mixed-cluster.json
        config starter --nodes nodes.json
        config starter --nodes block.yaml
        """,
    ),
    Case(
        "config-suggest",
        "suggest",
        """
        config suggest
        config suggest --nodes dump.json
        config suggest --nodes dump.json -o json
        config suggest --nodes dump.json -o configmap
        """,
    ),
    Case(
        "normalized-owners",
        "normalized",
        """
        explain pod shop/new --from dump.json
        explain pod shop/new --from dump.json --node fast -o json
        explain pod shop/large --from dump.json
        explain pod shop/wrong --from dump.json
        explain pod shop/db --from dump.json
        explain node fast --from dump.json
        plan --from dump.json
        plan --from dump.json -o json
        plan --from dump.json --policy off.yaml --against none
        """,
        ((r"planned in .* pods/s", "planned in TIME, N pods/s"), (r'(podsPerSecond"?): \d+', r"\1: N")),
    ),
    Case(
        "plan",
        "plan",
        """
        plan --from-openb nodes.csv pods.csv
        plan --from-openb nodes.csv pods.csv -o json
        plan --from-openb nodes.csv pods.csv -o yaml --score MostAllocated
        plan --from-openb nodes.csv pods.csv --policy ratio-2.yaml --against ratio-1.yaml
        plan --from-openb nodes.csv pods.csv --policy ratio-2.yaml --against ratio-1.yaml -o json
        plan --from-openb nodes.csv pods.csv --policy ratio-2.yaml --against none
        plan --from-openb nodes.csv pods.csv --policy ratio-2.yaml --against ratio-2.yaml
        plan --from dump.json
        plan --from dump.json -o json
        plan --from dump.json --against none
        plan --from dump.json --policy ratio-2.yaml --against none -o yaml
        plan --from nodes.csv
        plan --from-openb pods.csv nodes.csv
        plan --from dump.json --policy bad.yaml
        plan --from dump.json --policy none.yaml
        """,
        ((r"planned in .* pods/s", "planned in TIME, N pods/s"), (r'(podsPerSecond"?): \d+', r"\1: N")),
    ),
    Case(
        "compute-inventory",
        "compute",
        """
        compute inventory --topology topology.json --config nova.conf --host n1
        compute inventory --topology topology.json --config nova.conf --host n1 -o json
        compute inventory --topology topology.json --config nova.conf --host n1 -o yaml
        compute inventory --topology - --config nova.conf --host n1 < topology.json
        compute inventory --topology topology.json --config legacy.conf --host n1
        compute inventory --topology topology.json --config legacy.conf --host n1 --compat nova
        compute inventory --topology topology.json --config wrong.conf --host n1
        compute inventory --topology topology.json --config none.conf --host n1
        compute inventory --topology nova.conf --config nova.conf --host n1
        compute inventory --topology topology.json --root . --host n1
        machine offline host
        compute inventory --root host --config shared.conf --host n1
        compute inventory --root host --config nova.conf --host n1
        compute run --once --dry-run --topology topology.json --config nova.conf --host n1
        compute run --once --dry-run --topology topology.json --config nova.conf --host n1 -o json
        compute run --once --dry-run --topology topology.json --config wrong.conf --host n1
        """,
    ),
    Case(
        "compute-request",
        "compute",
        """
        compute request --flavor dedicated.json
        compute request --flavor dedicated.json -o json
        compute request --flavor dedicated.json -o query
        compute request --flavor dedicated.json -o yaml --compat nova
        compute request --flavor isolated.json -o query
        compute request --flavor pcpu.json -o json
        compute request --flavor mixed.json
        compute request --flavor numa.json -o json
        compute request --flavor small.json --image image.json
        compute request --flavor unknown-class.json -o query
        compute request --flavor both.json
        compute request --flavor exclusive.json
        compute request --flavor outside.json
        compute request --flavor empty.json
        compute request --flavor cut.json
        compute request --flavor small.json --image flat-image.json
        compute request --flavor none.json
        """,
    ),
    Case(
        "compute-guests",
        "compute",
        f"""
        compute pin --flavor dedicated.json {N1}
        compute pin --flavor mixed.json {N1} -o json
        compute pin --flavor numa.json {N1} -o yaml
        compute pin --flavor small.json {N1} -o xml --domain domain.xml
        compute schedule --flavor large.json {N1} --ledger l --guest a
        compute schedule --flavor small.json {N1} --ledger l --guest s -o json
        cat l
        compute status {N1} --ledger l
        compute status {N1} --ledger l -o wide
        compute status {N1} --ledger l -o json
        compute status {N1} --ledger l -o svg
        compute status --topology topology.json --config moved.conf --host n1 --ledger l
        compute status --topology topology.json --config shared.conf --host n1 --ledger l
        compute status --topology topology.json --config legacy.conf --host n1 --ledger l
        compute status --topology topology.json --config nova.conf --host n2 --ledger l
        compute schedule --flavor dedicated.json {N1} --ledger l
        compute schedule --flavor dedicated.json {N1} --ledger l -o json
        compute pin --flavor dedicated.json {N1} --ledger l --guest c
        compute pin --flavor dedicated.json {N1} --ledger l --guest a
        compute delete a {N1} --ledger l
        compute delete a {N1} --ledger l
        compute pin --flavor isolated.json {N1} --ledger l --guest i
        compute schedule --flavor small.json {N1} --ledger m --guest {GUEST}
        compute apply {GUEST} {N1} --ledger m --domain domain.xml
        compute apply b {N1} --ledger m --domain domain.xml
        truncate l 100
        compute delete s {N1} --ledger l
        compute status {N1} --ledger l
        """,
    ),
    Case(
        "compute-hosts",
        "compute",
        """
        compute schedule --flavor dedicated.json --hosts hosts --scores scores.json --guest 1
        compute schedule --flavor dedicated.json --hosts hosts --guest 2 -o json
        compute schedule --flavor large.json --hosts hosts --guest 3 --pack -o yaml
        compute status --hosts hosts
        cp nova.conf hosts/a/topology.json
        compute schedule --flavor dedicated.json --hosts hosts --guest 4
        compute schedule --flavor dedicated.json --hosts hosts --scores nova.conf --guest 5
        compute delete 1 --hosts hosts
        compute delete 2 --hosts hosts
        """,
    ),
    Case(
        "compute-moves",
        "compute",
        """
        compute schedule --flavor small.json --hosts hosts --guest 1
        compute move 1 --to b --hosts hosts
        compute status --hosts hosts
        compute delete 1 --hosts hosts
        compute revert 1 --hosts hosts
        compute revert 1 --hosts hosts
        compute resize 1 --flavor dedicated.json --to a --hosts hosts
        compute confirm 1 --hosts hosts
        compute rebuild 1 --flavor dedicated.json --hosts hosts
        compute rebuild 1 --flavor small.json --hosts hosts
        compute evacuate 1 --to b --hosts hosts
        compute move 1 --to nowhere --hosts hosts
        """,
    ),
    Case(
        "compute-reshape",
        "compute",
        f"""
        compute reshape {N1} {GUESTS}
        compute reshape {N1} {GUESTS} -o json
        compute reshape {N1} {GUESTS} -o yaml --compat nova
        compute reshape --topology topology.json --config shared.conf --host n1 {GUESTS}
        compute reshape --topology topology.json --config moved.conf --host n1 {GUESTS}
        compute reshape {N1} --provider guests.json --guests provider.json
        compute reshape --topology topology.json --config nova.conf --host n1
        """,
    ),
    Case(
        "explain-interference",
        "interference",
        """
        explain interference --config scheduler.yaml --metrics metrics.json --pod pod.yaml
        explain interference --config scheduler.yaml --metrics metrics.json --pod pod.yaml -o wide
        explain interference --config scheduler.yaml --metrics metrics.json --pod pod.yaml -o json
        explain interference --config scheduler.yaml --metrics metrics.json --pod pod.yaml -o yaml
        explain interference --config pod.yaml --metrics metrics.json --pod pod.yaml
        explain interference --config scheduler.yaml --metrics pod.yaml --pod pod.yaml
        explain interference --config scheduler.yaml --metrics metrics.json --pod scheduler.yaml
        """,
    ),
    Case(
        "explain-reason",
        "",
        """
        explain reason UnknownCPUModel
        explain reason CPUsOwned
        explain reason UnknownCPUModel -o json
        """,
    ),
    Case(
        "explain-suppression",
        "suppression",
        """
        explain suppression n1 --from squeezed.json
        explain suppression n1 --from squeezed.json -o json
        explain suppression n1 --from squeezed.json -o yaml
        explain suppression n1 --from calm.json
        explain suppression n1 --from frozen.json
        explain suppression n1 --from withdrawn.json
        explain suppression n1 --from old.json
        explain suppression n1 --from none.json
        explain suppression n9 --from none.json
        explain suppression n1 --from nowhere.json
        """,
        (AGE,),
    ),
    Case(
        "audit-and-restore",
        "trees",
        """
        unpack divided.json .
        audit --root .
        audit --root . -o wide
        audit --root . -o json
        audit --root . -o yaml
        audit --root . -o csv
        audit --root . --kind held
        audit --root . --kind held -o json
        audit --root . --kind opened
        audit --root . --reason QuotaNormalized --last 1
        audit --root . --cgroup weba.scope
        audit --root . --cgroup nobody
        agent restore --root .
        agent restore --root .
        audit --root . --kind wrote --last 7 -o json
        """,
    ),
    *(
        Case(
            f"topology-{machine}",
            "",
            f"""
            machine {machine} .
            topology --root .
            topology --root . -o wide
            topology --root . -o json
            topology --root . -o yaml
            topology --root . -o svg
            """,
        )
        for machine in ("intel", "epyc", "smt_off", "offline", "neoverse", "big_little", "hybrid")
    ),
    *(
        Case(
            f"topology-{machine}",
            "",
            f"""
            machine {machine} .
            topology --root .
            topology --root . -o wide
            """,
        )
        for machine in ("bare_vm", "sub_numa")
    ),
    Case(
        "cluster",
        "",
        """
        nodes
        nodes --all
        nodes -o wide
        nodes -o json
        nodes -o yaml
        nodes -o csv
        nodes -o name
        nodes -l pool=fast
        nodes -l pool=nosuch
        nodes -l pool=
        top
        top --sort used --once
        top offline
        top offline -o wide
        top offline -o json
        top offline -o yaml
        top offline -o csv
        top offline -o name
        top offline --sort idle --once
        report --cluster -o md
        explain node fast
        explain node fast -o json
        explain node fast -o yaml
        explain node slow
        explain node odd
        explain node bare
        explain node calm
        explain node nowhere
        explain suppression fast
        explain suppression fast -o json
        explain suppression tainted
        explain suppression silent
        explain suppression strange
        explain suppression nowhere
        explain pod default/pending
        explain pod pending -o json
        explain pod pending -o yaml --node fast
        explain pod pending --node fast
        explain pod owner
        explain pod share
        explain pod odd
        explain pod huge
        explain pod nobody
        explain pod share --node nowhere
        uninstall --check
        uninstall
        """,
        (AGE, (r"(?<=nodes, )20[\dT:-]+Z", "TIME")),
        "looked-at",
    ),
    Case(
        "profile",
        "interference",
        """
        history week.json
        profile --history week.json
        profile --history week.json -o json
        profile --history week.json -o yaml
        profile --history week.json -o yaml --p95
        profile --history week.json -o yaml --config scheduler.yaml
        profile --history metrics.json
        profile --history none.json
        """,
    ),
]
