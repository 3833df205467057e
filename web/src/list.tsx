// A view that is one table: figures, remarks, search and filters above it.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { ColumnChooser, chosenColumns } from "./columns";
import { byKey, count, naturalKey } from "./format";
import { Choose, Figures, found, Heading, Remarks, Search, Waiting } from "./parts";
import { asked, setQuery } from "./router";
import { type Row, type TableData, useTable } from "./stream";
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
  empty: ComponentChildren;
  /** Rows are named NAMESPACE/NAME. Users who may see only some namespaces can ask the server for one. */
  namespaced?: boolean;
}

function NamespaceForm() {
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement).get("namespace");
    setQuery({ namespace: typeof given === "string" ? given.trim() : "" });
  };
  return (
    <form class="controls" aria-label="Namespace" onSubmit={send}>
      <label>
        Namespace
        <input name="namespace" defaultValue={asked("namespace")} autocomplete="off" />
      </label>
      <button type="submit">Show its pods</button>
    </form>
  );
}

const namespaceOf = (row: Row): string => row.name.split("/", 1)[0] ?? "";

function namespacesOf(rows: Row[]): [string, string][] {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(namespaceOf(row), (counts.get(namespaceOf(row)) ?? 0) + 1);
  const names = [...counts].sort((a, b) => byKey(naturalKey(a[0]), naturalKey(b[0])));
  return [["", "All namespaces"], ...names.map(([name, many]): [string, string] => [name, `${name} (${many})`])];
}

export function List<R extends Row>(props: ListProps<R>) {
  const { table, title, namespaced = false } = props;
  const namespace = namespaced ? asked("namespace") : "";
  const feed = useTable(table, namespace);
  const data = feed.data.value;
  return (
    <>
      <Heading>{title}</Heading>
      {data ? <Shown {...props} data={data} namespace={namespace} /> : (
        <>
          <Waiting feed={feed} />
          {namespaced && feed.forbidden.value && <NamespaceForm />}
        </>
      )}
    </>
  );
}

function Shown<R extends Row>({
  title, noun, columns, texts, figures, filter, above, empty, namespaced = false, data, namespace,
}: ListProps<R> & { data: TableData; namespace: string }) {
  const [words, within] = [asked("q"), asked("in")];
  const kept = filter ? asked(filter.name, filter.options[0]?.[0]) : "";
  const rows = useMemo(() => [...data.rows.values()] as R[], [data.rows]);
  const namespaces = useMemo(() => (namespaced ? namespacesOf(rows) : []), [rows, namespaced]);
  const shown = useMemo(() => {
    const here = within && namespaced ? rows.filter((row) => namespaceOf(row) === within) : rows;
    return found(filter ? here.filter((row) => filter.keeps(row, kept)) : here, words, texts);
  }, [rows, words, kept, within]);
  const total = (data.total ?? {}) as Partial<R>;
  return (
    <>
      <Figures of={[[`${noun[0]?.toUpperCase() ?? ""}${noun.slice(1)}s`, rows.length], ...(figures?.(total) ?? [])]} />
      <Remarks lines={data.remarks} />
      {namespace && <NamespaceForm />}
      {above?.(rows, total)}
      <form class="controls" role="search" aria-label={title} onSubmit={(event) => { event.preventDefault(); }}>
        <Search label="Search" />
        {namespaced && !namespace && <Choose label="Namespace" name="in" options={namespaces} />}
        {filter && <Choose label={filter.label} name={filter.name} options={filter.options} />}
        <p role="status" class="count">
          {shown.length === rows.length ? "" : `${shown.length} of ${count(rows.length, noun)} shown`}
        </p>
      </form>
      {rows.length > 0 && <ColumnChooser columns={columns} />}
      {!rows.length ? <p>{empty}</p> : shown.length ? (
        <Table caption={title} columns={chosenColumns(columns)} rows={shown} />
      ) : (
        <p>No {noun} matches. <button type="button" onClick={() => { setQuery({ q: "", in: "", show: "" }); }}>Show all</button></p>
      )}
    </>
  );
}
