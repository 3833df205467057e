// Problems by kind: what it means and what to do is said once, then each object with its age.
import { useEffect, useState } from "preact/hooks";
import { Copyable } from "./copy";
import { age, byKey, count, naturalKey } from "./format";
import { Choose, found, Heading, NodeLink, ObjectLink, Plain, Remarks, Search, Severity, Waiting } from "./parts";
import { asked } from "./router";
import { type Row, serverTime, type TableData, useTable } from "./stream";

export interface ProblemRow extends Row {
  reason: string | null;
  kind: string;
  object: string;
  node: string | null;
  /** `error`: somebody has to act; `warning`: it usually clears itself; `over`: only an Event is left of it. */
  severity: string;
  meaning: string;
  message: string;
  fix: string | null;
  command: string | null;
  since: string | null;
  /** It was there when the server first looked, so it is older than that. */
  atLeast: boolean;
  lastEvent: string | null;
  current: boolean;
}

const ORDER = ["error", "warning", "over"];
const TITLES: Record<string, string> = {
  error: "Somebody has to act",
  warning: "Usually clears itself",
  over: "Over",
};

const secondsSince = (time: string | null): number | null =>
  time ? Math.max(0, Math.floor((serverTime() - Date.parse(time)) / 1000)) : null;

/** "5m", "5m or more", or "over for 2m". */
function ageOf(row: ProblemRow): string {
  if (!row.current) return `over for ${age(secondsSince(row.lastEvent ?? row.since))}`;
  return age(secondsSince(row.since)) + (row.atLeast ? " or more" : "");
}

interface Kind {
  reason: string;
  severity: string;
  rows: ProblemRow[];
}

function kindsOf(rows: ProblemRow[]): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const row of rows) {
    const reason = row.reason ?? "Cannot be read";
    const key = `${row.severity} ${reason}`;
    const kind = kinds.get(key) ?? { reason, severity: row.severity, rows: [] };
    kinds.set(key, kind);
    kind.rows.push(row);
  }
  return [...kinds.values()].sort(
    (a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity) || b.rows.length - a.rows.length || byKey(a.reason, b.reason),
  );
}

/** What is wrong with each object, without the name of the object: alike texts are said once. */
const bare = (row: ProblemRow): string => row.message.replaceAll(row.object, "…").replaceAll(row.object.split("/").at(-1) ?? row.object, "…");

function OneKind({ of: { reason, severity, rows } }: { of: Kind }) {
  const [first] = rows;
  const [message = ""] = new Set(rows.map(bare));
  const alike = rows.every((row) => bare(row) === message);
  const sorted = [...rows].sort((a, b) => byKey(naturalKey(a.object), naturalKey(b.object)));
  const sameKind = rows.every((row) => row.kind === first?.kind) ? (first?.kind ?? "object").toLowerCase() : "object";
  const head = ["Object", "Age", ...(alike ? [] : ["What is wrong there"])];
  const onNode = rows.some((row) => row.kind !== "Node" && row.node);
  return (
    <details open={severity !== "over"} class={`kind ${severity}`}>
      <summary>
        <Severity of={severity} /> <b>{reason}</b>: {count(rows.length, sameKind)}
      </summary>
      {first?.meaning && <p>{first.meaning}</p>}
      {alike && message && message !== first?.meaning && <p>{rows.length === 1 ? first?.message : message}</p>}
      {first?.fix && <p><b>What to do:</b> {first.fix}</p>}
      <Plain
        caption={reason}
        head={onNode ? [head[0] ?? "", "On node", ...head.slice(1)] : head}
        rows={sorted.map((row) => [
          <ObjectLink kind={row.kind} name={row.object} />,
          ...(onNode ? [row.node ? <NodeLink name={row.node} /> : "-"] : []),
          ageOf(row),
          ...(alike ? [] : [row.message]),
        ])}
        most={200}
      />
      {sorted[0]?.command && severity !== "over" && <Copyable text={sorted[0].command} label={`Command that explains ${sorted[0].object}`} />}
    </details>
  );
}

/** How many there are of each severity, as the navigation counts them. */
function Counts({ rows }: { rows: ProblemRow[] }) {
  const of = (severity: string): number => rows.filter((row) => row.severity === severity).length;
  const nodes = new Set(rows.filter((row) => row.current && row.node).map((row) => row.node)).size;
  const [act, clear, over] = [of("error"), of("warning"), of("over")];
  if (!rows.length) return <p>No corewise program reports a problem.</p>;
  return (
    <p class="lead">
      {act + clear === 0 ? "No problem now" : <><b>{count(act + clear, "problem")}</b>{nodes > 0 && `, on ${count(nodes, "node")}`}</>}
      {act + clear > 0 && `: ${act} that somebody has to deal with, ${clear} that usually clear themselves`}
      {over > 0 && `. ${over} over`}.
    </p>
  );
}

function Shown({ data }: { data: TableData; ticks: number }) {
  const rows = [...data.rows.values()] as ProblemRow[];
  const severity = asked("show", "all");
  const wanted = severity === "all" ? rows : rows.filter((row) => row.severity === severity);
  const shown = found(wanted, asked("q"), (row) => `${row.reason ?? ""} ${row.kind} ${row.object} ${row.node ?? ""} ${row.message}`);
  const kinds = kindsOf(shown);
  return (
    <>
      <Counts rows={rows} />
      <Remarks lines={data.remarks} />
      <form class="controls" role="search" aria-label="Problems" onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        <Choose label="Show" name="show" options={[["all", "All"], ...ORDER.map((each): [string, string] => [each, TITLES[each] ?? each])]} />
        <p role="status" class="count">{shown.length === rows.length ? "" : `${shown.length} of ${count(rows.length, "problem")} shown`}</p>
      </form>
      {ORDER.filter((each) => kinds.some((kind) => kind.severity === each)).map((each) => (
        <section key={each} aria-labelledby={`severity-${each}`}>
          <h2 id={`severity-${each}`}>{TITLES[each]}</h2>
          {kinds.filter((kind) => kind.severity === each).map((kind) => <OneKind key={kind.reason} of={kind} />)}
        </section>
      ))}
    </>
  );
}

export function ProblemsView() {
  const feed = useTable("problems");
  const [ticks, older] = useState(0); // a component with signals is drawn again only if what it is given differs
  useEffect(() => {
    const ticking = setInterval(() => { older((times) => times + 1); }, 5000);
    return () => { clearInterval(ticking); };
  }, []);
  return (
    <>
      <Heading>Problems</Heading>
      {feed.data.value ? <Shown data={feed.data.value} ticks={ticks} /> : <Waiting feed={feed} />}
    </>
  );
}
