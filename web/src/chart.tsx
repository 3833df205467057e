// Series over time, drawn by uPlot, with the newest values in words for whoever cannot see the drawing.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { measured, number } from "./format";
import { theme } from "./theme";

export interface Line {
  name: string;
  /** Milli-CPU, the newest last. */
  values: readonly (number | null)[];
}

interface SeriesProps {
  title: string;
  lines: Line[];
  /** Seconds between samples: the axis then says how long ago. */
  step?: number;
  /** Times in seconds since 1970, where they are known. */
  times?: readonly number[];
  /** The values are counts, not milli-CPU. */
  counts?: boolean;
}

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
/** Lines differ by color and by dashes: one of the two is enough to tell them apart. */
const COLORS = ["--line-1", "--line-2", "--line-3", "--line-4"];

/** Times of day with 24 hours, as everywhere else; seconds only where ticks are less than a minute apart. */
const clock: uPlot.Axis.DynamicValues = (_, ticks, __, ___, step) =>
  ticks.map((each) => new Date(each * 1000).toTimeString().slice(0, step < 60 ? 8 : 5));

/** From the first time to the last; of less than a minute the axis would repeat itself, of one time it would be a day. */
const atLeastAMinute = ({ data: [times] }: uPlot): uPlot.Range.MinMax => {
  const last = times.at(-1) ?? 0;
  return [Math.min(times[0] ?? 0, last - 60), last];
};

export function Series({ title, lines, step = 1, times, counts = false }: SeriesProps) {
  const box = useRef<HTMLDivElement>(null);
  const length = Math.max(0, ...lines.map((line) => line.values.length));
  const x = times ?? Array.from({ length }, (_, place) => (place - length + 1) * step);
  const data: uPlot.AlignedData = [
    [...x],
    ...lines.map((line) => [
      ...Array.from({ length: length - line.values.length }, () => null),
      ...line.values.map((each) => (each === null || counts ? each : each / 1000)),
    ]),
  ];
  const plot = useRef<uPlot | null>(null);
  const names = lines.map((line) => line.name).join("\n");

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const color = (name: string) => (): string => style.getPropertyValue(name).trim();
    const ink = color("--text");
    const text = parseFloat(style.fontSize);
    const height = 12 * text;
    const font = `${0.8 * text}px ${style.fontFamily}`;
    const axis = { stroke: ink, font, grid: { stroke: color("--line"), width: 1 }, labelGap: 0 };
    // As wide as the widest number: one that is cut would be another number.
    const beside: uPlot.Axis.Size = (_, values) =>
      Math.ceil(1.4 * text + Math.max(2, ...(Array.isArray(values) ? values : []).map((each) => each.length)) * 0.55 * text);
    const drawn = new uPlot(
      {
        width: element.clientWidth,
        height,
        scales: {
          x: { time: times !== undefined, range: atLeastAMinute },
          y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] },
        },
        // Room for half of the last time at the right, and for half of the highest number above.
        padding: [0.8 * text, 2.4 * text, 0, 0],
        axes: [
          { ...axis, size: 2.4 * text, space: 6 * text, values: times ? clock : (_, ticks) => ticks.map((each) => (each ? `${each}s` : "now")) },
          { ...axis, size: beside },
        ],
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        series: [{}, ...lines.map((line, place) => ({
          label: line.name,
          stroke: color(COLORS[place % COLORS.length] ?? "--text"),
          width: 2,
          dash: DASHES[place % DASHES.length] ?? [],
          points: { show: false },
        }))],
      },
      data,
      element,
    );
    plot.current = drawn;
    const watch = new ResizeObserver(() => {
      drawn.setSize({ width: element.clientWidth, height });
    });
    watch.observe(element);
    const recolor = theme.subscribe(() => { drawn.redraw(false); });
    return () => {
      recolor();
      watch.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [names, times !== undefined]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [JSON.stringify(data)]);

  return (
    <figure class="series">
      <figcaption>
        {title}
        <ul class="legend">
          {lines.map((line, place) => (
            <li key={line.name}>
              <svg class={`dash of-${place % COLORS.length}`} viewBox="0 0 40 4" aria-hidden="true">
                <line x1="0" y1="2" x2="40" y2="2" stroke-dasharray={(DASHES[place % DASHES.length] ?? []).join(" ")} />
              </svg>
              {line.name}, now {(counts ? number : measured)(line.values.at(-1))}
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}

/** What nodes did lately; every list is as long as the times, null where nothing is known. */
export interface History {
  source: string;
  since: string | null;
  times: number[];
  onlineCPUMilli: (number | null)[];
  offlineCPUMilli: (number | null)[];
  offeredCPUMilli: (number | null)[];
  quotaCPUMilli: (number | null)[];
  batchCPUNormalizedMilli: (number | null)[];
  nodesSuppressing: (number | null)[];
}

export function HistoryCharts({ of, all = false }: { of: History; all?: boolean }) {
  if (!of.times.length) return <p>Nothing has been recorded yet.</p>;
  return (
    <div class="charts">
      <Series
        title="Used, raw CPUs"
        times={of.times}
        lines={[
          { name: "Online", values: of.onlineCPUMilli },
          { name: "Offline", values: of.offlineCPUMilli },
        ]}
      />
      <Series
        title="Offered to offline pods and their quota, raw CPUs"
        times={of.times}
        lines={[
          { name: "Offered", values: of.offeredCPUMilli },
          { name: "Quota", values: of.quotaCPUMilli },
          { name: "Used", values: of.offlineCPUMilli },
        ]}
      />
      <Series
        title="Requested by offline pods, normalized CPUs"
        times={of.times}
        lines={[{ name: "Requested", values: of.batchCPUNormalizedMilli }]}
      />
      <Series
        title={all ? "Nodes that are suppressing" : "Suppressing (1) or not (0)"}
        times={of.times}
        lines={[{ name: "Suppressing", values: of.nodesSuppressing }]}
        counts
      />
    </div>
  );
}
