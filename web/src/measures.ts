// What the map of the cluster can show: one measure at a time, each with one denominator, which is the area too.
import { cpus, measured } from "./format";
import type { NodeRow } from "./cluster";

/** A color of the map, as a custom property of style.css, and what it stands for. */
export interface Step {
  color: string;
  text: string;
  /** Drawn hatched, so that color is not all that says it. */
  hatched?: boolean;
}

export interface Measure {
  name: string;
  title: string;
  /** What the area of a node is, and what the color is a share of, in one sentence. */
  says: string;
  area: (row: NodeRow) => number;
  steps: Step[];
  /** Which step a node is on; null: it is not measured. */
  step: (row: NodeRow) => number | null;
  /** What is written in a tile. */
  text: (row: NodeRow) => string;
}

export const UNKNOWN: Step = { color: "--unknown", text: "not known", hatched: true };

const FIFTHS: Step[] = ["0 to 19%", "20 to 39%", "40 to 59%", "60 to 79%", "80% and more"].map((text, place) => ({
  color: `--scale-${place}`,
  text,
}));

const share = (part: number | null, whole: number | null): number | null =>
  part === null || !whole || whole <= 0 ? null : Math.floor((part * 100) / whole);

function shareMeasure(
  name: string, title: string, says: string, whole: (row: NodeRow) => number | null, part: (row: NodeRow) => number | null,
): Measure {
  const of = (row: NodeRow): number | null => share(part(row), whole(row));
  return {
    name,
    title,
    says,
    area: (row) => whole(row) ?? 0,
    steps: FIFTHS,
    step: (row) => {
      const percent = of(row);
      return percent === null ? null : Math.min(4, Math.max(0, Math.floor(percent / 20)));
    },
    text: (row) => {
      const percent = of(row);
      return percent === null ? "not measured" : `${percent}%`;
    },
  };
}

const schedulable = (row: NodeRow): number | null => row.schedulableCPUMilli;
const raw = (row: NodeRow): number | null => row.rawAllocatableCPUMilli;

/** The worst severity of a node's problems: 0 none, 1 clears itself, 2 somebody has to act. */
export const worst = (row: NodeRow): number =>
  (row.problems ?? []).reduce((found, each) => Math.max(found, each.severity === "error" ? 2 : 1), 0);

const WORTH: [number, Step][] = [
  [90, { color: "--worth-0", text: "below 0.90: less than requested" }],
  [111, { color: "--worth-1", text: "0.90 to 1.10: what was requested" }],
  [151, { color: "--worth-2", text: "1.11 to 1.50" }],
  [Infinity, { color: "--worth-3", text: "above 1.50: much more than requested" }],
];

export const MEASURES: [Measure, ...Measure[]] = [
  shareMeasure(
    "requested", "Requested", "Area: schedulable CPUs. Color: the share of them that pods request.",
    schedulable, (row) => row.requestedCPUMilli,
  ),
  shareMeasure(
    "use", "Use", "Area: raw CPUs. Color: the share of them that pods use, as the agent or metrics.k8s.io measures it.",
    raw, (row) => row.usedCPUMilli ?? null,
  ),
  {
    name: "worth",
    title: "Worth per CPU",
    says: "Area: schedulable CPUs. Color: the worth of one CPU requested there, in baseline CPUs.",
    area: (row) => schedulable(row) ?? 0,
    steps: WORTH.map(([, step]) => step),
    step: (row) => {
      const worth = row.worthCPU;
      return worth ? WORTH.findIndex(([below]) => Math.round(Number(worth) * 100) < below) : null;
    },
    text: (row) => row.worthCPU ?? "speed unknown",
  },
  shareMeasure(
    "pressure", "Pressure of online pods",
    "Area: raw CPUs. Color: the share of them that online pods use, as the agent measures it: offline pods have to give way to it.",
    raw, (row) => row.onlineCPUMilli ?? null,
  ),
  {
    name: "problems",
    title: "Problems",
    says: "Area: schedulable CPUs. Color: the most urgent problem of the node and its pods.",
    area: (row) => schedulable(row) ?? 0,
    steps: [
      { color: "--calm", text: "no problem" },
      { color: "--soon", text: "~ clears itself" },
      { color: "--act", text: "! somebody has to act", hatched: true },
    ],
    step: worst,
    text: (row) => (row.problems ?? []).map((each) => each.reason).join(", ") || "no problem",
  },
];

/** All that is known of a node in one line: every amount with the denominator it is a share of. */
export function describe(row: NodeRow): string {
  const of = (amount: number | null | undefined, whole: number | null): string => {
    const percent = share(amount ?? null, whole);
    return percent === null ? "" : ` (${percent}%)`;
  };
  const parts = [
    `${row.name}: ${row.cpuModel ?? "model unknown"}`,
    `requested ${cpus(row.requestedCPUMilli)} of ${cpus(row.schedulableCPUMilli)} schedulable CPUs${of(row.requestedCPUMilli, row.schedulableCPUMilli)}`,
  ];
  if (typeof row.usedCPUMilli === "number") {
    parts.push(`used ${measured(row.usedCPUMilli)} of ${cpus(row.rawAllocatableCPUMilli)} raw CPUs${of(row.usedCPUMilli, row.rawAllocatableCPUMilli)}`);
  }
  if (row.worthCPU) parts.push(`one requested CPU is worth ${row.worthCPU}`);
  if (row.problems?.length) parts.push(`problems: ${row.problems.map((each) => each.reason).join(", ")}`);
  else if (row.state) parts.push(row.state);
  return parts.join(", ");
}
