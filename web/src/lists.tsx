// The views that are a list each: pods and offline work.
import { type History, HistoryCharts } from "./chart";
import { age, cpus, gibibytes, measured, number, percent } from "./format";
import { NodeLink, PodLink, StateText } from "./parts";
import { List } from "./list";
import { type Row, useDocument } from "./stream";
import { amount, type Column } from "./table";

/** A row of `corewise top pods -o json`. */
export interface PodRow extends Row {
  node: string | null;
  qosClass: string | null;
  phase: string;
  cpus: string;
  requestedCPUMilli: number;
  requestedMemoryBytes: number;
  ownedCPUs: number;
  batchCPUNormalizedMilli: number;
  batchMemoryBytes: number;
  problem: string | null;
}

/** The columns of `corewise top pods -o wide`. */
const POD_COLUMNS: Column<PodRow>[] = [
  { title: "Pod", text: (row) => row.name, show: (row) => <PodLink name={row.name} /> },
  { title: "Node", text: (row) => row.node ?? "-", show: (row) => (row.node ? <NodeLink name={row.node} /> : "-") },
  { title: "Class", text: (row) => row.qosClass ?? "" },
  amount("CPU", cpus, (row) => row.requestedCPUMilli || null),
  amount("Mem GiB", gibibytes, (row) => row.requestedMemoryBytes || null),
  amount("Batch CPU", cpus, (row) => row.batchCPUNormalizedMilli || null),
  amount("Batch mem GiB", gibibytes, (row) => row.batchMemoryBytes || null, true),
  amount("Owned", number, (row) => row.ownedCPUs || null, true),
  { title: "Owned CPUs", text: (row) => row.cpus || "-" },
  {
    title: "State",
    text: (row) => row.problem ?? row.phase,
    show: (row) => <StateText text={row.problem ?? row.phase} problem={row.problem !== null} />,
  },
];

export function PodsView() {
  return (
    <List<PodRow>
      table="pods"
      title="Pods"
      noun="pod"
      namespaced
      columns={POD_COLUMNS}
      texts={(row) => `${row.name} ${row.node ?? ""} ${row.qosClass ?? ""} ${row.problem ?? row.phase}`}
      figures={(total) => [
        ["CPU requested", cpus(total.requestedCPUMilli)],
        ["Memory requested, GiB", gibibytes(total.requestedMemoryBytes)],
        ["Batch CPU, normalized", cpus(total.batchCPUNormalizedMilli)],
        ["CPUs owned", number(total.ownedCPUs)],
      ]}
      filter={{
        label: "Show",
        name: "show",
        options: [
          ["all", "All pods"],
          ["nowhere", "Pods without a node"],
          ["offline", "Offline pods"],
          ["owners", "Pods that own CPUs"],
          ["problems", "Pods with a problem"],
        ],
        keeps: (row, value) =>
          ({
            nowhere: row.node === null,
            offline: row.qosClass === "offline",
            owners: row.ownedCPUs > 0,
            problems: row.problem !== null,
          })[value] ?? true,
      }}
      empty={<>No pod waits or runs in the cluster. All that there are: <code>kubectl get pods -A</code></>}
    />
  );
}

/** A row of `corewise top -o json`. */
export interface OfflineRow extends Row {
  allocatableCPUMilli: number;
  onlineCPUMilli: number;
  offlineCPUMilli: number;
  idleCPUMilli: number;
  offeredCPUMilli: number;
  quotaCPUMilli: number | null;
  targetCPUMilli: number | null;
  offlinePods: number;
  nativeBestEffortPods: number;
  offeredMemoryBytes: number;
  repairs: number;
  mode: string | null;
  state: string;
  limitedBy: string;
  intervalSeconds: number | null;
  ageSeconds: number | null;
  stale: boolean;
  onlineHistoryCPUMilli: number[];
  offlineHistoryCPUMilli: number[];
}

const part = (title: string, of: (row: OfflineRow) => number): Column<OfflineRow> => ({
  title,
  text: (row) => measured(of(row)) + percent(of(row), row.allocatableCPUMilli),
  figure: of,
});

/** The columns of `corewise top -o wide`, but for the sparklines. */
const OFFLINE_COLUMNS: Column<OfflineRow>[] = [
  { title: "Node", text: (row) => row.name, show: (row) => <NodeLink name={row.name} /> },
  amount("CPU", cpus, (row) => row.allocatableCPUMilli),
  part("Online", (row) => row.onlineCPUMilli),
  part("Offline", (row) => row.offlineCPUMilli),
  part("Idle", (row) => row.idleCPUMilli),
  amount("Offered", measured, (row) => row.offeredCPUMilli),
  amount("Quota", measured, (row) => row.quotaCPUMilli),
  amount("Target", measured, (row) => row.targetCPUMilli, true),
  amount("Pods", number, (row) => row.offlinePods),
  amount("Native BE", number, (row) => row.nativeBestEffortPods, true),
  amount("Offered mem GiB", gibibytes, (row) => row.offeredMemoryBytes, true),
  amount("Repaired", number, (row) => row.repairs, true),
  { title: "Mode", text: (row) => row.mode ?? "", wide: true },
  { title: "State", text: (row) => row.state },
  { title: "Limited by", text: (row) => row.limitedBy },
  {
    title: "Age",
    text: (row) => age(row.ageSeconds) + (row.stale ? " OLD" : ""),
    show: (row) => <StateText text={age(row.ageSeconds) + (row.stale ? " OLD" : "")} problem={row.stale} />,
    figure: (row) => row.ageSeconds,
  },
];

export function OfflineView() {
  return (
    <List<OfflineRow>
      table="offline"
      title="Offline work"
      noun="node"
      columns={OFFLINE_COLUMNS}
      texts={(row) => `${row.name} ${row.state} ${row.limitedBy}`}
      figures={(total) => [
        ["Raw CPU", cpus(total.allocatableCPUMilli)],
        ["Online", measured(total.onlineCPUMilli) + percent(total.onlineCPUMilli, total.allocatableCPUMilli)],
        ["Offline", measured(total.offlineCPUMilli) + percent(total.offlineCPUMilli, total.allocatableCPUMilli)],
        ["Idle", measured(total.idleCPUMilli) + percent(total.idleCPUMilli, total.allocatableCPUMilli)],
        ["Offered", measured(total.offeredCPUMilli)],
        ["Quota", measured(total.quotaCPUMilli)],
        ["Offline pods", number(total.offlinePods)],
      ]}
      above={() => (
        <>
          <p class="lead">
            Offline pods are offered a share of the CPU that online pods leave idle, and their quota holds them to it. What
            keeps them from more is under <b>Limited by</b>.
          </p>
          <OfflineHistory />
        </>
      )}
      empty={<>No node offers idle CPU to offline pods. Turn it on for a node: <code>kubectl label node NODE volcano.sh/oversubscription=true</code></>}
    />
  );
}

function OfflineHistory() {
  const feed = useDocument<{ history: History | null }>("offline/*");
  const history = feed.data.value?.history;
  return history ? <HistoryCharts of={history} all /> : null;
}

