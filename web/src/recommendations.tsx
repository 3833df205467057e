// What to change in the cluster to get more out of its CPUs: each with its reason and its command.
import { Copyable } from "./copy";
import { count, cpus } from "./format";
import { Choose, found, Heading, ObjectLink, Remarks, Search, Waiting } from "./parts";
import { asked, Link, whatIfAddress } from "./router";
import { type Row, useTable } from "./stream";

interface RecommendationRow extends Row {
  advice: string;
  kind: string;
  object: string;
  what: string;
  why: string;
  amountCPUMilli: number;
  command: string;
}

/** What each kind of advice is about, in the order of the filter. */
const KINDS: [string, string][] = [
  ["all", "All"],
  ["UnusedRequest", "CPUs that are requested and never used"],
  ["OfferUnrequested", "Offline pods that could be added"],
  ["OfflinePodFits", "Offline pods that wait and fit"],
  ["AmplifiedTooFar", "Nodes that are amplified too far"],
];

/** What becomes of the amount. */
const AMOUNT: Record<string, string> = {
  UnusedRequest: "become free",
  OfferUnrequested: "would be used",
  OfflinePodFits: "would be used",
  AmplifiedTooFar: "fewer are offered",
};

const MOST = 100;

function One({ of }: { of: RecommendationRow }) {
  const [namespace, name] = of.object.split("/");
  return (
    <li class="advice">
      <h2>{of.what}</h2>
      <p>
        <b>{cpus(of.amountCPUMilli)} normalized CPUs {AMOUNT[of.advice] ?? ""}.</b> Why: {of.why}.{" "}
        <ObjectLink kind={of.kind} name={of.object} />
        {of.kind === "Node" && <>{" · "}<Link to={whatIfAddress({ change: "ratio", node: of.object })}>Try another ratio first</Link></>}
        {of.kind !== "Node" && of.kind !== "Pod" && (
          <>{" · "}<Link to={`/pods?in=${encodeURIComponent(namespace ?? "")}&q=${encodeURIComponent(name ?? "")}`}>Show its pods</Link></>
        )}
      </p>
      <Copyable text={of.command} label={`Command for ${of.object}`} />
    </li>
  );
}

export function RecommendationsView() {
  const feed = useTable("recommendations");
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Heading>Recommendations</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const kind = asked("show", "all");
  const rows = [...data.rows.values()] as RecommendationRow[];
  rows.sort((a, b) => b.amountCPUMilli - a.amountCPUMilli);
  const wanted = kind === "all" ? rows : rows.filter((row) => row.advice === kind);
  const shown = found(wanted, asked("q"), (row) => `${row.object} ${row.kind} ${row.what}`);
  return (
    <>
      <Heading>Recommendations</Heading>
      <p>
        Ways to get more out of the cluster&apos;s CPUs. Amounts are in normalized CPUs, the unit of requests, so they can be
        compared across CPU models. The page changes nothing: each has the command that would.
      </p>
      <Remarks lines={data.remarks} />
      <form class="controls" role="search" aria-label="Recommendations" onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        <Choose label="Show" name="show" options={KINDS} />
        <p role="status" class="count">
          {shown.length === rows.length ? count(rows.length, "recommendation") : `${shown.length} of ${count(rows.length, "recommendation")} shown`}
        </p>
      </form>
      {!rows.length && !data.remarks.length && <p>Nothing to recommend: requests, ratios and offline work fit what is used.</p>}
      <ul class="advices">
        {shown.slice(0, MOST).map((row) => <One key={row.name} of={row} />)}
      </ul>
      {shown.length > MOST && <p>{shown.length - MOST} more are not shown: search for an object.</p>}
    </>
  );
}
