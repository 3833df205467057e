// Memory bandwidth, latency and cache of one node beside what all nodes of the cluster have.
import { Plain, Remarks } from "./parts";

interface Quantile {
  share: number;
  value: number;
  text: string;
}

interface Measure {
  name: string;
  value: number | null;
  text: string;
  /** How many nodes the quantiles are of. */
  nodes: number;
  quantiles: Quantile[];
}

export interface Interference {
  source: string;
  remarks: string[];
  measures: Measure[];
}

const WIDTH = 300;
const HEIGHT = 22;

/** From the least to the most of all nodes; the middle half is a box, the median a line, the node a mark. */
function Spread({ quantiles, value }: { quantiles: Quantile[]; value: number | null }) {
  const all = [...quantiles.map((each) => each.value), ...(value === null ? [] : [value])];
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const at = (each: number): number => 6 + (most > least ? ((each - least) / (most - least)) * (WIDTH - 12) : WIDTH / 2 - 6);
  const of = new Map(quantiles.map((each) => [each.share, each.value]));
  const [from, low, middle, high, to] = [0, 0.25, 0.5, 0.75, 1].map((share) => of.get(share));
  return (
    <svg class="spread" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {from !== undefined && to !== undefined && <line x1={at(from)} x2={at(to)} y1={HEIGHT / 2} y2={HEIGHT / 2} />}
      {low !== undefined && high !== undefined && (
        <rect x={at(low)} y={5} width={Math.max(1, at(high) - at(low))} height={HEIGHT - 10} />
      )}
      {middle !== undefined && <line x1={at(middle)} x2={at(middle)} y1={5} y2={HEIGHT - 5} />}
      {value !== null && <polygon points={`${at(value) - 5},0 ${at(value) + 5},0 ${at(value)},9`} />}
    </svg>
  );
}

export function InterferenceView({ of }: { of: Interference }) {
  const shares = [...new Set(of.measures.flatMap((each) => each.quantiles.map(({ share }) => share)))].sort();
  const title = (share: number): string =>
    share === 0 ? "Least" : share === 0.5 ? "Median" : share === 1 ? "Most" : `${Math.round(share * 100)}% below`;
  return (
    <section aria-labelledby="interference">
      <h2 id="interference">Memory bandwidth, latency and cache</h2>
      <Remarks lines={of.remarks} />
      {of.measures.length > 0 && (
        <Plain
          caption="This node beside all nodes"
          head={["Measure", "This node", "Beside all nodes", ...shares.map(title), "Nodes"]}
          figures={[1, ...shares.map((_, place) => place + 3), shares.length + 3]}
          rows={of.measures.map((each) => [
            each.name,
            each.text,
            <Spread quantiles={each.quantiles} value={each.value} />,
            ...shares.map((share) => each.quantiles.find((quantile) => quantile.share === share)?.text ?? "-"),
            each.nodes,
          ])}
        />
      )}
      {of.source && <p class="command">From {of.source}. The mark is this node, the box the middle half of all nodes.</p>}
    </section>
  );
}
