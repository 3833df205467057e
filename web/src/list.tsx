// A view that is one table: figures, remarks, search and filter above it.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { count } from "./format";
import { Choose, Figures, found, Heading, Remarks, Search, Waiting } from "./parts";
import { asked, setQuery } from "./router";
import { type Row, useTable } from "./stream";
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
  /** Users who may see only some namespaces can ask for one. */
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

export function List<R extends Row>({ table, title, noun, columns, texts, figures, filter, above, empty, namespaced = false }: ListProps<R>) {
  const namespace = namespaced ? asked("namespace") : "";
  const feed = useTable(table, namespace);
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
        {namespaced && feed.forbidden.value && <NamespaceForm />}
      </>
    );
  }
  const total = (data.total ?? {}) as Partial<R>;
  return (
    <>
      <Heading>{title}</Heading>
      <Figures of={[[`${noun[0]?.toUpperCase() ?? ""}${noun.slice(1)}s`, rows.length], ...(figures?.(total) ?? [])]} />
      <Remarks lines={data.remarks} />
      {namespace && <NamespaceForm />}
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
