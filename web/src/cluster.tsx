// The cluster: first what one requested CPU is worth, then every node as a tile and as a row. What the address says
// (search, group, color, order) is what is shown.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ColumnChooser, chosenColumns } from "./columns";
import { count, cpus, gibibytes, measured, number, percent } from "./format";
import type { PodRow } from "./lists";
import { MEASURES, type Measure, type Step, UNKNOWN, worst } from "./measures";
import { Choose, Figures, found, Heading, NodeLink, Remarks, Search, StateText, Waiting } from "./parts";
import { asked, Link } from "./router";
import { type Row, type TableData, useTable } from "./stream";
import { amount, type Column, Table } from "./table";
import { type Block, type Tile, Treemap } from "./treemap";
import { fastestOf, type KindWorth, WorthPicture } from "./worth";

/** A row of `corewise nodes -o json`, and what the map shows. */
export interface NodeRow extends Row {
  cpuModel: string | null;
  /** The model's name as the command line shortens it. */
  shortModel: string | null;
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
  problems?: { reason: string; severity: string }[];
  /** Raw milli-CPU; null where it is not measured. */
  usedCPUMilli?: number | null;
  onlineCPUMilli?: number | null;
  /** Decimal text: what one CPU requested there is worth, in baseline CPUs. */
  worthCPU?: string | null;
}

const flag = (on: boolean | null): string => (on === null ? "-" : on ? "on" : "off");
const hundredths = (ratio: string | null): number | null => (ratio === null ? null : Number(ratio.replace(".", "")));

/** The columns of `corewise nodes -o wide`; models by their short names, which differ where a narrow column ends. */
const NODE_COLUMNS: Column<NodeRow>[] = [
  { title: "Node", text: (row) => row.name, show: (row) => <NodeLink name={row.name} /> },
  { title: "Model", text: (row) => row.cpuModel ?? "-", show: (row) => row.shortModel ?? "-" },
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
    show: (row) => <StateText text={row.state} problem={row.state !== "" && worst(row) === 2} />,
  },
];

const LABEL = "label:";
const ZONE = "topology.kubernetes.io/zone";

const NONE: Record<string, string> = {};
const labelsOf = (row: NodeRow): Record<string, string> => row.labels ?? NONE;

function groupOf(row: NodeRow, by: string): string {
  if (by === "model") return row.shortModel ?? "model unknown";
  if (by === "none") return "all nodes";
  if (by === "problem") return row.problems?.[0]?.reason ?? "no problem";
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

/** Up to how many nodes pods are drawn as blocks unless somebody decides otherwise, and up to how many they can be. */
const BLOCKS_UNASKED = 60;
const MOST_BLOCKS = 300;

const NO_PODS: ReadonlyMap<string, readonly Block[]> = new Map();

const workOf = (row: PodRow): Block["work"] => (row.qosClass === "offline" ? "offline" : row.ownedCPUs > 0 ? "owner" : "online");

/** Follow all pods, which is dear in a large cluster: mounted only where they are drawn. */
function PodsOnNodes({ onPods }: { onPods: (pods: ReadonlyMap<string, readonly Block[]>) => void }) {
  const feed = useTable("pods");
  const rows = feed.data.value?.rows;
  useEffect(() => {
    if (!rows) return;
    const byNode = new Map<string, Block[]>();
    for (const row of [...rows.values()] as PodRow[]) {
      if (!row.node) continue;
      const blocks = byNode.get(row.node) ?? [];
      byNode.set(row.node, blocks);
      blocks.push({ name: row.name, work: workOf(row) });
    }
    for (const blocks of byNode.values()) blocks.sort((a, b) => ORDER.indexOf(a.work) - ORDER.indexOf(b.work));
    onPods(byNode);
  }, [rows]);
  useEffect(() => () => { onPods(NO_PODS); }, []);
  return null;
}

const ORDER: Block["work"][] = ["owner", "online", "offline"];

export function ClusterView() {
  const nodes = useTable("nodes");
  const data = nodes.data.value;
  return (
    <>
      <Heading>Cluster</Heading>
      {data ? <Shown data={data} /> : <Waiting feed={nodes} />}
    </>
  );
}

const SHOW: [string, string][] = [["all", "All nodes"], ["problems", "Nodes with a problem"], ["act", "Nodes with a problem to act on"]];

function Shown({ data }: { data: TableData }) {
  const [chosen, setChosen] = useState("");
  const [pods, setPods] = useState(NO_PODS);
  const [words, by, only] = [asked("q"), asked("group", "model"), asked("show", "all")];
  const measure = MEASURES.find((each) => each.name === asked("color")) ?? MEASURES[0];
  const rows = useMemo(() => [...data.rows.values()] as NodeRow[], [data.rows]);
  const options = useMemo(() => groupings(rows), [rows]);
  const shown = useMemo(() => {
    const least = only === "act" ? 2 : only === "problems" ? 1 : 0;
    const wanted = rows.filter((row) => worst(row) >= least);
    return found(wanted, words, (row) =>
      [row.name, row.cpuModel ?? "", row.shortModel ?? "", row.state, ...Object.entries(labelsOf(row)).map(([k, v]) => `${k}=${v}`)]
        .join(" "),
    );
  }, [rows, words, only]);
  const tiles = useMemo(
    () => shown.map((row): Tile => ({ row, group: groupOf(row, by), pods: pods.get(row.name) ?? [] })),
    [shown, by, pods],
  );
  const blocks = asked("pods", shown.length <= BLOCKS_UNASKED ? "blocks" : "none") === "blocks" && shown.length <= MOST_BLOCKS;
  return (
    <>
      <WorthPicture of={(data.worth ?? []) as unknown as KindWorth[]} />
      <Totals data={data} rows={rows} kinds={(data.worth ?? []) as unknown as KindWorth[]} />
      <Remarks lines={data.remarks} />
      <form class="controls" role="search" aria-label="Nodes" onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        <Choose label="Color by" name="color" options={MEASURES.map((each): [string, string] => [each.name, each.title])} />
        <Choose label="Group by" name="group" options={options} />
        <Choose label="Show" name="show" options={SHOW} />
        <Choose
          label="Pods"
          name="pods"
          options={rows.length <= BLOCKS_UNASKED ? [["blocks", "As blocks in nodes"], ["none", "Not in the map"]] : [["none", "Not in the map"], ["blocks", `As blocks, up to ${MOST_BLOCKS} nodes`]]}
        />
        <p role="status" class="count">
          {shown.length === rows.length ? "" : `${shown.length} of ${count(rows.length, "node")} shown`}
        </p>
      </form>
      {blocks && <PodsOnNodes onPods={setPods} />}
      {shown.length === 0 ? (
        <Nothing known={rows.length > 0} only={only} words={words} />
      ) : (
        <div class="beside">
          <section aria-labelledby="map">
            <h2 id="map">Map</h2>
            <Legend measure={measure} blocks={blocks} unknown={shown.some((row) => measure.step(row) === null)} />
            <Treemap tiles={tiles} measure={measure} chosen={chosen} onChoose={setChosen} />
          </section>
          <section aria-labelledby="table">
            <h2 id="table">Table</h2>
            <ColumnChooser columns={NODE_COLUMNS} />
            <Table caption="Nodes" columns={chosenColumns(NODE_COLUMNS)} rows={shown} marked={chosen} onMark={setChosen} />
          </section>
        </div>
      )}
    </>
  );
}

function Totals({ data, rows, kinds }: { data: TableData; rows: NodeRow[]; kinds: KindWorth[] }) {
  const total = data.total as Partial<NodeRow> | null;
  const models = new Set(rows.map((row) => row.cpuModel).filter(Boolean)).size;
  const troubled = rows.filter((row) => worst(row) > 0).length;
  const part = (row: NodeRow): number => (row.schedulableCPUMilli ? (row.requestedCPUMilli ?? 0) / row.schedulableCPUMilli : -1);
  const fullest = rows.reduce<NodeRow | null>((most, row) => (most === null || part(row) > part(most) ? row : most), null);
  return (
    <Figures
      of={[
        ["Nodes", rows.length],
        ["CPU models", models],
        ["Fastest CPU model", fastestOf(kinds)],
        ["Raw CPU", cpus(total?.rawAllocatableCPUMilli)],
        ["Normalized", cpus(total?.normalizedCPUMilli)],
        ["Schedulable", cpus(total?.schedulableCPUMilli)],
        ["Requested", cpus(total?.requestedCPUMilli) + percent(total?.requestedCPUMilli, total?.schedulableCPUMilli)],
        ["Free", cpus(total?.freeCPUMilli)],
        ["Offline offered", measured(total?.offlineOfferedCPUMilli)],
        ["Fullest node", fullest ? <><NodeLink name={fullest.name} />{percent(fullest.requestedCPUMilli, fullest.schedulableCPUMilli)}</> : "-"],
        ["Nodes with a problem", troubled ? <Link to="/problems">{troubled}</Link> : 0],
      ]}
    />
  );
}

function Nothing({ known, only, words }: { known: boolean; only: string; words: string }) {
  if (!known) {
    return (
      <p>
        The cluster has no nodes, or they have not registered yet: <code>kubectl get nodes</code>
      </p>
    );
  }
  if (words) return <p>No node matches {`"${words}"`}. A search looks at names, models, states and labels.</p>;
  return <p>{only === "act" ? "No node has a problem that somebody has to act on." : "No node has a problem."}</p>;
}

const Swatch = ({ of }: { of: Step }) => <span class={`swatch ${of.color.slice(2)}${of.hatched ? " hatched" : ""}`} />;

function Legend({ measure, blocks, unknown }: { measure: Measure; blocks: boolean; unknown: boolean }) {
  return (
    <div class="key">
      <p>{measure.says}</p>
      <ul class="legend" aria-label="What the map shows">
        {[...measure.steps, ...(unknown ? [UNKNOWN] : [])].map((step) => (
          <li key={step.text}><Swatch of={step} /> {step.text}</li>
        ))}
        {measure.name !== "problems" && <li><span class="swatch urgent" /> ! problem to act on</li>}
      </ul>
      {blocks && (
        <ul class="legend" aria-label="What a block in a node is">
          <li>One block is one pod:</li>
          <li><span class="block owner" /> owns CPUs</li>
          <li><span class="block" /> online</li>
          <li><span class="block offline" /> offline</li>
        </ul>
      )}
    </div>
  );
}
