// The idea in one picture: what one CPU in a request is worth on each kind of machine, without and with corewise.
import { useState } from "preact/hooks";
import { Bar } from "./parts";
import { count } from "./format";

export interface WorthRange {
  least: string;
  most: string;
}

/** What one requested CPU is worth on one kind of machine; null where its speed is unknown. */
export interface KindWorth {
  kind: string;
  /** The name that is shown, as `corewise up` prints it. */
  shortName: string;
  nodes: number;
  off: WorthRange | null;
  on: WorthRange | null;
}

/** Kinds that are shown unasked, so that the map's legend stays above the fold. */
const MOST = 8;
/** How far from 1.00 a CPU may be worth and still be called alike, in hundredths, as `corewise up` has it. */
const ALIKE = 10;

const hundredths = (text: string): number => Math.round(Number(text) * 100);
const text = (of: WorthRange): string => (of.least === of.most ? of.least : `${of.least} to ${of.most}`);
const isFair = (of: WorthRange): boolean =>
  [of.least, of.most].every((each) => Math.abs(hundredths(each) - 100) <= ALIKE);

/** The kind of machine whose CPUs do most, and how much: "EPYC 9654 (1.50)". */
export function fastestOf(kinds: KindWorth[]): string {
  const [first] = kinds.filter((each) => each.off !== null).sort((a, b) => Number(b.off?.most) - Number(a.off?.most));
  return first ? `${first.shortName} (${first.off?.most ?? ""})` : "not known";
}

function overall(ranges: WorthRange[]): WorthRange | null {
  const [first] = ranges;
  if (!first) return null;
  return ranges.reduce((all, each) => ({
    least: hundredths(each.least) < hundredths(all.least) ? each.least : all.least,
    most: hundredths(each.most) > hundredths(all.most) ? each.most : all.most,
  }), first);
}

/** What the picture says, in a sentence. */
function Sentence({ of }: { of: KindWorth[] }) {
  const off = overall(of.map((each) => each.off).filter((each) => each !== null));
  const on = overall(of.map((each) => each.on).filter((each) => each !== null));
  if (!off || !on) {
    return (
      <p>
        No speed is known of any CPU model here. State it in ratioModel, or measure it: <code>corewise calibrate</code>
      </p>
    );
  }
  const unknown = of.filter((each) => !each.on).reduce((sum, each) => sum + each.nodes, 0);
  return (
    <p class="lead">
      One CPU in a request does the work of <b>{text(off)}</b> baseline CPUs without corewise, depending on the node, and
      of <b>{text(on)}</b> with it{isFair(on) ? ", on every node" : ""}.
      {unknown > 0 && ` The speed of ${count(unknown, "node")} is not known.`}
    </p>
  );
}

function Worth({ of, most, side }: { of: WorthRange | null; most: number; side: string }) {
  if (!of) return <span class="unknown">speed unknown</span>;
  return (
    <span class="worth">
      <span class="rail" aria-hidden="true">
        <Bar part={hundredths(of.most) / most} kind={isFair(of) ? "fair" : "unfair"} />
      </span>
      <b>{text(of)}</b>
      <span class="hidden"> {side}</span>
    </span>
  );
}

export function WorthPicture({ of }: { of: KindWorth[] }) {
  const [all, setAll] = useState(false);
  if (!of.length) return null;
  const ranges = of.flatMap((each) => [each.off, each.on]).filter((each) => each !== null);
  const most = Math.max(100, ...ranges.map((each) => hundredths(each.most)));
  return (
    <section aria-labelledby="worth" class={ranges.some((each) => each.least !== each.most) ? "idea ranged" : "idea"}>
      <h2 id="worth">What one requested CPU is worth</h2>
      <Sentence of={of} />
      <table>
        <caption class="hidden">Worth of one requested CPU by CPU model, in baseline CPUs</caption>
        <thead>
          <tr>
            <th scope="col">CPU model</th>
            <th scope="col">Without corewise</th>
            <th scope="col">With corewise</th>
          </tr>
        </thead>
        <tbody>
          {of.slice(0, all ? of.length : MOST).map((each) => (
            <tr key={each.kind}>
              <th scope="row" title={each.kind}>
                {each.shortName} <small>{count(each.nodes, "node")}</small>
              </th>
              <td><Worth of={each.off} most={most} side="without corewise" /></td>
              <td><Worth of={each.on} most={most} side="with corewise" /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {of.length > MOST && (
        <button type="button" aria-expanded={all} onClick={() => { setAll(!all); }}>
          {all ? `Show ${MOST} kinds of machine` : `Show all ${of.length} kinds of machine`}
        </button>
      )}
      <details>
        <summary>How this is computed</summary>
        <p>
          In baseline CPUs: those of the slowest model, ratio 1.00. Without corewise: the speed that the configuration
          states for the model. With corewise: that speed / the node&apos;s amplification ratio. Both hold when all
          that a node offers is requested and busy.
        </p>
      </details>
    </section>
  );
}
