// The cluster: every node as a tile and as a row. What the address says (search, group, order) is what is shown.
import { useMemo, useState } from "preact/hooks";
import { cpus, gibibytes, measured, number, percent } from "./format";
import { Choose, Figures, found, Heading, NodeLink, Remarks, Search, StateText, Waiting } from "./parts";
import { asked } from "./router";
import { type Row, useTable } from "./stream";
import { amount, type Column, Table } from "./table";
import { type Tile, Treemap } from "./treemap";

/** A row of `corewise nodes -o json`. */
export interface NodeRow extends Row {
  cpuModel: string | null;
  hyperThreading: boolean | null;
  turbo: boolean | null;
  normalizationRatio: string | null;
  amplificationRatio: string | null;
  rawCapacityCPUMilli: number | null;
  capacityCPUMilli: number | null;
  rawAllocatableCPUMilli: number | null;
  normalizedCPUMilli: number | null;
  schedulableCPUMilli: number | null;
  requestedCPUMilli: number | null;
  freeCPUMilli: number | null;
  rawAllocatableMemoryBytes: number | null;
  requestedMemoryBytes: number | null;
  schedulableMemoryBytes: number | null;
  offlineOfferedCPUMilli: number | null;
  nativeBestEffortPods: number | null;
  state: string;
  problem: string | null;
  labels: Record<string, string> | null;
}

const flag = (on: boolean | null): string => (on === null ? "-" : on ? "on" : "off");
const hundredths = (ratio: string | null): number | null => (ratio === null ? null : Number(ratio.replace(".", "")));

/** The columns of `corewise nodes -o wide`. */
const NODE_COLUMNS: Column<NodeRow>[] = [
  { title: "Node", text: (row) => row.name, show: (row) => <NodeLink name={row.name} /> },
  { title: "Model", text: (row) => row.cpuModel ?? "-" },
  { title: "HT", text: (row) => flag(row.hyperThreading), wide: true },
  { title: "Turbo", text: (row) => flag(row.turbo), wide: true },
  amount("Raw CPU", cpus, (row) => row.rawAllocatableCPUMilli),
  { title: "Norm", text: (row) => row.normalizationRatio ?? "-", figure: (row) => hundredths(row.normalizationRatio) },
  amount("Normalized", cpus, (row) => row.normalizedCPUMilli),
  { title: "Amp", text: (row) => row.amplificationRatio ?? "-", figure: (row) => hundredths(row.amplificationRatio) },
  amount("Schedulable", cpus, (row) => row.schedulableCPUMilli),
  {
    title: "Requested",
    text: (row) => cpus(row.requestedCPUMilli) + percent(row.requestedCPUMilli, row.schedulableCPUMilli),
    figure: (row) => row.requestedCPUMilli,
  },
  amount("Free", cpus, (row) => row.freeCPUMilli),
  amount("Offline offered", measured, (row) => row.offlineOfferedCPUMilli),
  amount("Native BE", number, (row) => row.nativeBestEffortPods, true),
  amount("Raw capacity", cpus, (row) => row.rawCapacityCPUMilli, true),
  amount("Capacity", cpus, (row) => row.capacityCPUMilli, true),
  amount("Raw mem GiB", gibibytes, (row) => row.rawAllocatableMemoryBytes, true),
  amount("Schedulable mem GiB", gibibytes, (row) => row.schedulableMemoryBytes, true),
  amount("Requested mem GiB", gibibytes, (row) => row.requestedMemoryBytes, true),
  {
    title: "State",
    text: (row) => row.state,
    show: (row) => <StateText text={row.state} problem={row.problem !== null} />,
  },
];

const LABEL = "label:";
const ZONE = "topology.kubernetes.io/zone";

const NONE: Record<string, string> = {};
const labelsOf = (row: NodeRow): Record<string, string> => row.labels ?? NONE;

function groupOf(row: NodeRow, by: string): string {
  if (by === "model") return row.cpuModel ?? "model unknown";
  if (by === "none") return "all nodes";
  if (by === "problem") return row.problem ?? "no problem";
  return labelsOf(row)[by.slice(LABEL.length)] ?? "without the label";
}

function groupings(rows: NodeRow[]): [string, string][] {
  const keys = new Set(rows.flatMap((row) => Object.keys(labelsOf(row))));
  keys.delete("kubernetes.io/hostname");
  const labels = [...keys].sort((a, b) => Number(b === ZONE) - Number(a === ZONE) || a.localeCompare(b));
  return [
    ["model", "CPU model"],
    ["problem", "Problem"],
    ["none", "Nothing"],
    ...labels.map((key): [string, string] => [LABEL + key, key === ZONE ? "Zone" : `Label ${key}`]),
  ];
}

function tileOf(row: NodeRow, by: string, offline: Row | undefined): Tile {
  const milli = (key: string): number => (typeof offline?.[key] === "number" ? offline[key] : 0);
  return {
    name: row.name,
    group: groupOf(row, by),
    normalized: row.normalizedCPUMilli ?? row.rawAllocatableCPUMilli ?? 0,
    requested: row.requestedCPUMilli ?? 0,
    schedulable: row.schedulableCPUMilli ?? 0,
    used: offline ? milli("onlineCPUMilli") + milli("offlineCPUMilli") : null,
    allocatable: milli("allocatableCPUMilli"),
    state: row.state,
    problem: row.problem ?? "",
  };
}

export function ClusterView() {
  const nodes = useTable("nodes");
  const offline = useTable("offline");
  const [chosen, setChosen] = useState("");
  const data = nodes.data.value;
  const measurements = offline.data.value;
  const [words, by, only] = [asked("q"), asked("group", "model"), asked("show", "all")];
  const rows = useMemo(() => [...(data?.rows.values() ?? [])] as NodeRow[], [data?.rows]);
  const options = useMemo(() => groupings(rows), [rows]);
  const shown = useMemo(() => {
    const wanted = only === "problems" ? rows.filter((row) => row.problem !== null) : rows;
    return found(wanted, words, (row) =>
      [row.name, row.cpuModel ?? "", row.state, ...Object.entries(labelsOf(row)).map(([k, v]) => `${k}=${v}`)]
        .join(" "),
    );
  }, [rows, words, only]);
  const tiles = useMemo(
    () => shown.map((row) => tileOf(row, by, measurements?.rows.get(row.name))),
    [shown, by, measurements?.rows],
  );
  if (!data) {
    return (
      <>
        <Heading>Cluster</Heading>
        <Waiting feed={nodes} />
      </>
    );
  }
  const total = data.total as Partial<NodeRow> | null;
  const models = new Set(rows.map((row) => row.cpuModel).filter(Boolean)).size;
  return (
    <>
      <Heading>Cluster</Heading>
      <Figures
        of={[
          ["Nodes", rows.length],
          ["CPU models", models],
          ["Raw CPU", cpus(total?.rawAllocatableCPUMilli)],
          ["Normalized", cpus(total?.normalizedCPUMilli)],
          ["Schedulable", cpus(total?.schedulableCPUMilli)],
          ["Requested", cpus(total?.requestedCPUMilli) + percent(total?.requestedCPUMilli, total?.schedulableCPUMilli)],
          ["Free", cpus(total?.freeCPUMilli)],
          ["Offline offered", measured(total?.offlineOfferedCPUMilli)],
        ]}
      />
      <Remarks lines={data.remarks} />
      <form class="controls" role="search" aria-label="Nodes" onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        <Choose label="Group by" name="group" options={options} />
        <Choose label="Show" name="show" options={[["all", "All nodes"], ["problems", "Nodes with a problem"]]} />
        <p role="status" class="count">
          {shown.length === rows.length ? "" : `${shown.length} of ${rows.length} nodes shown`}
        </p>
      </form>
      {shown.length === 0 ? (
        <p>{rows.length ? "No node matches." : "The cluster has no nodes."}</p>
      ) : (
        <div class="beside">
          <section aria-labelledby="map">
            <h2 id="map">Map</h2>
            <Treemap tiles={tiles} chosen={chosen} onChoose={setChosen} />
            <Legend />
          </section>
          <section aria-labelledby="table">
            <h2 id="table">Table</h2>
            <Table caption="Nodes" columns={NODE_COLUMNS} rows={shown} marked={chosen} onMark={setChosen} />
          </section>
        </div>
      )}
    </>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="What the map shows">
      <li>Area: normalized CPU</li>
      <li><span class="swatch requested" /> Requested, of schedulable</li>
      <li><span class="swatch used" /> Used, of raw CPU (where an agent measures it)</li>
      <li><span class="swatch bad" /> ! A problem</li>
    </ul>
  );
}
