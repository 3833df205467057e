// The pods of one node: what each requests, uses, and is held back to.
import { ColumnChooser, chosenColumns } from "./columns";
import { byKey, count, cpus, measured, naturalKey, percent } from "./format";
import type { PodRow } from "./lists";
import { Choose, PodLink, Remarks, StateText } from "./parts";
import { asked } from "./router";
import { amount, type Column, Table } from "./table";

export interface NodePod extends PodRow {
  work: string;
  /** Normalized milli-CPU. */
  limitCPUMilli: number | null;
  usedCPUMilli: number | null;
  /** Raw milli-CPU: CPUs of this node. */
  quotaRawCPUMilli: number | null;
  usedRawCPUMilli: number | null;
  /** CPU seconds a second; null where nothing is known. */
  throttled: number | null;
  waited: number | null;
  waits: string | null;
}

/** What a pod requests, in normalized milli-CPU, whichever resource it is. */
const asks = (row: NodePod): number => row.requestedCPUMilli || row.batchCPUNormalizedMilli;

const seconds = (of: number | null): string => (of === null ? "-" : of === 0 ? "0" : `${of.toFixed(2)} s/s`);
/** It runs as much as its quota lets it: its own limit holds it back. */
const atQuota = (row: NodePod): boolean =>
  row.quotaRawCPUMilli !== null && row.usedRawCPUMilli !== null && row.usedRawCPUMilli >= row.quotaRawCPUMilli * 0.95;

const milliOf = (of: number | null): number | null => (of === null ? null : Math.round(of * 1000));

const COLUMNS: Column<NodePod>[] = [
  { title: "Pod", text: (row) => row.name, show: (row) => <PodLink name={row.name} /> },
  { title: "Work", text: (row) => row.work },
  { title: "Class", text: (row) => row.qosClass ?? "-" },
  amount("Requested", cpus, (row) => asks(row) || null),
  {
    title: "Used",
    text: (row) => measured(row.usedCPUMilli) + (row.usedCPUMilli === null ? "" : percent(row.usedCPUMilli, asks(row))),
    figure: (row) => row.usedCPUMilli,
  },
  amount("Limit", cpus, (row) => row.limitCPUMilli),
  amount("Quota, raw", cpus, (row) => row.quotaRawCPUMilli),
  { title: "Throttled", text: (row) => seconds(row.throttled), figure: (row) => milliOf(row.throttled) },
  { title: "Waits", text: (row) => seconds(row.waited), figure: (row) => milliOf(row.waited) },
  { title: "Owned CPUs", text: (row) => row.cpus || "-" },
  {
    title: "State",
    text: (row) => row.problem ?? row.waits ?? (atQuota(row) ? "at its quota" : row.phase),
    show: (row) => row.problem ? <StateText text={row.problem} problem /> : (row.waits ?? (atQuota(row) ? "at its quota" : row.phase)),
  },
  amount("Used, raw", measured, (row) => row.usedRawCPUMilli, true),
];

const ORDER = ["CPU owner", "online", "offline"];

const WORKS: [string, string][] = [
  ["all", "All pods"],
  ["online", "Online pods"],
  ["offline", "Offline pods"],
  ["CPU owner", "Pods that own CPUs"],
];

export function NodePods({ pods, remark }: { pods: NodePod[]; remark: string }) {
  const work = asked("work", "all");
  const kept = work === "all" ? pods : pods.filter((each) => each.work === work);
  const shown = [...kept].sort(
    (a, b) => ORDER.indexOf(a.work) - ORDER.indexOf(b.work) || byKey(naturalKey(a.name), naturalKey(b.name)),
  );
  const of = (name: string): number => pods.filter((each) => each.work === name).length;
  return (
    <section aria-labelledby="pods">
      <h2 id="pods">Pods</h2>
      <p>
        {pods.length ? `${count(pods.length, "pod")}: ${of("online")} online, ${of("offline")} offline, ${of("CPU owner")} that own CPUs. ` : "No pod runs here. "}
        {pods.length > 0 && "Requested, used and limit are in normalized CPUs, so they can be compared; a quota is in raw CPUs of this node."}
      </p>
      {remark && <Remarks lines={[remark]} />}
      {pods.length > 0 && (
        <>
          <div class="controls">
            <Choose label="Show" name="work" options={WORKS} />
            <ColumnChooser columns={COLUMNS} />
          </div>
          {shown.length ? <Table caption="Pods of the node" columns={chosenColumns(COLUMNS)} rows={shown} byRows /> : <p>No pod of this kind runs here.</p>}
        </>
      )}
    </section>
  );
}
