// The views that are one table each: pods, offline work, problems, compute hosts.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type History, HistoryCharts } from "./chart";
import { age, count, cpus, gibibytes, measured, number, percent } from "./format";
import { Choose, Figures, found, Heading, NodeLink, Plain, PodLink, Remarks, Search, StateText, Waiting } from "./parts";
import { asked, hostAddress, Link } from "./router";
import { type Json, type Row, useDocument, useTable } from "./stream";
import { type Column, Table } from "./table";

interface ListProps<R extends Row> {
  table: string;
  title: string;
  noun: string;
  columns: Column<R>[];
  texts: (row: R) => string;
  figures?: (total: Partial<R>) => [string, ComponentChildren][];
  filter?: { label: string; name: string; options: [string, string][]; keeps: (row: R, value: string) => boolean };
  above?: (rows: R[], total: Partial<R>) => ComponentChildren;
  empty: string;
}

function List<R extends Row>({ table, title, noun, columns, texts, figures, filter, above, empty }: ListProps<R>) {
  const feed = useTable(table);
  const data = feed.data.value;
  const words = asked("q");
  const kept = filter ? asked(filter.name, filter.options[0]?.[0]) : "";
  const rows = useMemo(() => [...(data?.rows.values() ?? [])] as R[], [data?.rows]);
  const shown = useMemo(
    () => found(filter ? rows.filter((row) => filter.keeps(row, kept)) : rows, words, texts),
    [rows, words, kept],
  );
  if (!data) {
    return (
      <>
        <Heading>{title}</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const total = (data.total ?? {}) as Partial<R>;
  return (
    <>
      <Heading>{title}</Heading>
      <Figures of={[[`${noun[0]?.toUpperCase() ?? ""}${noun.slice(1)}s`, rows.length], ...(figures?.(total) ?? [])]} />
      <Remarks lines={data.remarks} />
      {above?.(rows, total)}
      <form class="controls" role="search" aria-label={title} onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        {filter && <Choose label={filter.label} name={filter.name} options={filter.options} />}
        <p role="status" class="count">
          {shown.length === rows.length ? "" : `${shown.length} of ${count(rows.length, noun)} shown`}
        </p>
      </form>
      {rows.length ? <Table caption={title} columns={columns} rows={shown} /> : <p>{empty}</p>}
    </>
  );
}

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

const POD_COLUMNS: Column<PodRow>[] = [
  { title: "Pod", text: (row) => row.name, show: (row) => <PodLink name={row.name} /> },
  { title: "Node", text: (row) => row.node ?? "-", show: (row) => (row.node ? <NodeLink name={row.node} /> : "-") },
  { title: "Class", text: (row) => row.qosClass ?? "" },
  { title: "CPU", text: (row) => cpus(row.requestedCPUMilli || null), figure: (row) => row.requestedCPUMilli || null },
  {
    title: "Mem GiB",
    text: (row) => gibibytes(row.requestedMemoryBytes || null),
    figure: (row) => row.requestedMemoryBytes || null,
  },
  {
    title: "Batch CPU",
    text: (row) => cpus(row.batchCPUNormalizedMilli || null),
    figure: (row) => row.batchCPUNormalizedMilli || null,
  },
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
      empty="There are no pods that have not finished."
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
  offlinePods: number;
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

const OFFLINE_COLUMNS: Column<OfflineRow>[] = [
  { title: "Node", text: (row) => row.name, show: (row) => <NodeLink name={row.name} /> },
  { title: "CPU", text: (row) => cpus(row.allocatableCPUMilli), figure: (row) => row.allocatableCPUMilli },
  part("Online", (row) => row.onlineCPUMilli),
  part("Offline", (row) => row.offlineCPUMilli),
  part("Idle", (row) => row.idleCPUMilli),
  { title: "Offered", text: (row) => measured(row.offeredCPUMilli), figure: (row) => row.offeredCPUMilli },
  { title: "Quota", text: (row) => measured(row.quotaCPUMilli), figure: (row) => row.quotaCPUMilli },
  { title: "Pods", text: (row) => number(row.offlinePods), figure: (row) => row.offlinePods },
  { title: "State", text: (row) => row.state },
  { title: "Limited by", text: (row) => row.limitedBy },
  {
    title: "Sample age",
    text: (row) => age(row.ageSeconds) + (row.stale ? " STALE" : ""),
    show: (row) => <StateText text={age(row.ageSeconds) + (row.stale ? " STALE" : "")} problem={row.stale} />,
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
      above={() => <OfflineHistory />}
      empty="No node offers idle CPU to offline pods. How to begin: docs/suppression.md."
    />
  );
}

function OfflineHistory() {
  const feed = useDocument<{ history: History | null }>("offline/*");
  const history = feed.data.value?.history;
  return history ? <HistoryCharts of={history} all /> : null;
}

interface ProblemRow extends Row {
  reason: string | null;
  kind: string;
  object: string;
  message: string;
  fix: string | null;
  command: string | null;
  since: string | null;
  current: boolean;
}

function ObjectLink({ kind, name }: { kind: string; name: string }) {
  if (kind === "Node") return <NodeLink name={name} />;
  if (kind === "Pod") return <PodLink name={name} />;
  return <>{`${kind} ${name}`}</>;
}

const seconds = (row: ProblemRow): number | null =>
  row.since ? Math.max(0, Math.floor((Date.now() - Date.parse(row.since)) / 1000)) : null;

const MOST = 200;

/** Problems by reason, the most common first: what to do is said once, then each object with what is wrong there. */
export function ProblemsView() {
  const feed = useTable("problems");
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Heading>Problems</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const rows = [...data.rows.values()] as ProblemRow[];
  const shown = found(rows, asked("q"), (row) => `${row.reason ?? ""} ${row.kind} ${row.object} ${row.message}`);
  const groups = new Map<string, ProblemRow[]>();
  for (const row of shown) {
    const key = row.reason ?? "Without a reason code";
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const ordered = [...groups].sort((a, b) => b[1].length - a[1].length);
  return (
    <>
      <Heading>Problems</Heading>
      <Remarks lines={data.remarks} />
      <form class="controls" role="search" aria-label="Problems" onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        <p role="status" class="count">{shown.length === rows.length ? count(rows.length, "problem") : `${shown.length} of ${rows.length} problems shown`}</p>
      </form>
      {!rows.length && <p>No corewise program reports a problem.</p>}
      {ordered.map(([reason, members]) => (
        <details key={reason} open>
          <summary>
            <StateText text={reason} problem={members.some((each) => each.current)} />: {count(members.length, "object")}
          </summary>
          {members[0]?.fix && <p>To fix: {members[0].fix}</p>}
          <Plain
            caption={reason}
            head={["Object", "Age", "What is wrong", "More"]}
            rows={members.slice(0, MOST).map((row) => [
              <ObjectLink kind={row.kind} name={row.object} />,
              (row.current ? "" : "over, ") + age(seconds(row)),
              row.message,
              row.command ? <code>{row.command}</code> : "",
            ])}
          />
          {members.length > MOST && <p>{members.length - MOST} more: search to narrow them down.</p>}
        </details>
      ))}
    </>
  );
}

const words = (key: string): string => key.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

const textOf = (value: Json | undefined): string =>
  value === null || value === undefined ? "-" : typeof value === "object" ? JSON.stringify(value) : String(value);

export function HostsView() {
  const feed = useTable("hosts");
  const first = [...(feed.data.value?.rows.values() ?? [])][0];
  const columns: Column<Row>[] = Object.keys(first ?? { name: "" }).map((key) => ({
    title: words(key),
    text: (row) => textOf(row[key]),
    ...(key === "name" ? { show: (row: Row) => <Link to={hostAddress(row.name)}>{row.name}</Link> } : {}),
    ...(typeof first?.[key] === "number" ? { figure: (row: Row) => row[key] as number | null } : {}),
  }));
  return (
    <List
      table="hosts"
      title="Compute hosts"
      noun="host"
      columns={columns}
      texts={(row) => Object.values(row).map(textOf).join(" ")}
      empty="Placement has no compute host."
    />
  );
}

interface HostDocument {
  host: Row;
  status: Record<string, Json>;
  reshape: Json;
}

export function HostView({ name }: { name: string }) {
  const feed = useDocument<HostDocument>(`hosts/${encodeURIComponent(name)}`);
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Heading>{name}</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const { host, status, reshape } = data;
  const guests = status["guests"];
  const kept = (Array.isArray(guests) ? guests : []).filter((each) => each !== null && typeof each === "object");
  const records = kept as Record<string, Json>[];
  const keys = [...new Set(records.flatMap((each) => Object.keys(each)))];
  return (
    <>
      <Heading>{name}</Heading>
      <Figures
        of={Object.entries(host).filter(([key]) => key !== "name").map(([key, value]) => [words(key), textOf(value)])}
      />
      <section aria-labelledby="guests">
        <h2 id="guests">Guests</h2>
        {records.length ? (
          <Plain
            caption="Guests"
            head={keys.map(words)}
            rows={records.map((each) => keys.map((key) => textOf(each[key])))}
          />
        ) : (
          <p>No guest has CPUs of this host.</p>
        )}
      </section>
      <section aria-labelledby="reshape">
        <h2 id="reshape">What an upgrade would move</h2>
        {reshape === null ? (
          <p>Nothing: the host is upgraded, or nothing is known of its allocations.</p>
        ) : (
          <pre tabIndex={0} role="group" aria-label="What an upgrade would move, as text">{JSON.stringify(reshape, null, 2)}</pre>
        )}
      </section>
    </>
  );
}
