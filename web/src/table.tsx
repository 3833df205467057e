// A table of thousands of rows: sorted and searched here, and only the rows that can be seen are in the page.
//
// Rows have one height, so that what is above and below can be two empty rows of the right height. Screen
// readers get the real number of rows and each row's place in it.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Amount, byKey, naturalKey } from "./format";
import { asked, setQuery } from "./router";
import type { Row } from "./stream";
import { printing } from "./theme";

export interface Column<R> {
  title: string;
  text: (row: R) => string;
  show?: (row: R) => ComponentChildren;
  figure?: (row: R) => Amount;
  wide?: boolean;
}

/** A column that shows a number. */
export function amount<R>(title: string, form: (value: Amount) => string, figure: (row: R) => Amount, wide = false): Column<R> {
  return { title, text: (row) => form(figure(row)), figure, wide };
}

const ROW = 33;
const SIGNS = { ascending: "↑", descending: "↓", none: "" };
const BEYOND = 8;
const ALL_BELOW = 60;
/** From how many rows on a table is drawn in a second frame: what is beside it comes first. */
const SECOND_FRAME = 1000;

/** Sort as `corewise top` does: figures from the largest, texts from A in natural order; unknown ones last. */
export function inOrder<R extends Row>(rows: R[], column: Column<R> | undefined, reverse: boolean): R[] {
  const { figure, text } = column ?? { text: (row: R) => row.name };
  if (!figure) {
    const sorted = rows.map((row) => [naturalKey(text(row)), row] as const).sort((a, b) => byKey(a[0], b[0]));
    if (reverse && column) sorted.reverse();
    return sorted.map(([, row]) => row);
  }
  const sign = reverse ? 1 : -1;
  const known: [number, R][] = [];
  const unknown: R[] = [];
  for (const row of rows) {
    const value = figure(row);
    if (value === null || value === undefined) unknown.push(row);
    else known.push([value, row]);
  }
  known.sort((a, b) => sign * (a[0] - b[0]));
  return [...known.map(([, row]) => row), ...unknown];
}

interface TableProps<R extends Row> {
  caption: string;
  columns: Column<R>[];
  rows: R[];
  total?: ComponentChildren[] | null;
  /** The row that something else on the page points at. */
  marked?: string;
  onMark?: (name: string) => void;
  rowClass?: (row: R) => string;
  /** Without a chosen order, rows stay as they are given. */
  byRows?: boolean;
}

export function Table<R extends Row>({ caption, columns, rows, total, marked, onMark, rowClass, byRows = false }: TableProps<R>) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 900 });
  const [drawn, setDrawn] = useState(rows.length < SECOND_FRAME);
  useEffect(() => { setDrawn(true); }, []);
  const sort = asked("sort");
  const reverse = asked("order") === "reverse";
  const sorted = useMemo(
    () => {
      if (!drawn) return [];
      const column = columns.find((each) => each.title.toLowerCase() === sort);
      return byRows && !column ? rows : inOrder(rows, column, reverse);
    },
    [drawn, rows, sort, reverse, columns.map((each) => each.title).join()],
  );

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = (): void => {
      setSeen({ top: element.scrollTop, height: element.clientHeight });
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const watch = new ResizeObserver(look);
    watch.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      watch.disconnect();
    };
  }, []);

  const whole = printing.value || sorted.length <= ALL_BELOW;
  const first = whole ? 0 : Math.max(0, Math.min(sorted.length, Math.floor(seen.top / ROW)) - BEYOND);
  const last = whole ? sorted.length : Math.min(sorted.length, Math.ceil((seen.top + seen.height) / ROW) + BEYOND);
  const order = (column: Column<R>): "ascending" | "descending" | undefined => {
    if (column.title.toLowerCase() !== sort) return undefined;
    return Boolean(column.figure) === reverse ? "ascending" : "descending";
  };
  const sortBy = (column: Column<R>): void => {
    const title = column.title.toLowerCase();
    setQuery({ sort: title, order: sort === title && !reverse ? "reverse" : "" });
  };
  return (
    <div class="scroll" ref={box} tabIndex={0} role="region" aria-label={caption}>
      <table aria-rowcount={rows.length + 1}>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                class={(column.figure ? "number " : "") + (column.wide ? "wide" : "")}
                aria-sort={order(column)}
              >
                {printing.value ? column.title : (
                  <button type="button" class="plain" onClick={() => { sortBy(column); }}>
                    {column.title}
                    <span aria-hidden="true" class="order">{SIGNS[order(column) ?? "none"]}</span>
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        {total && (
          <tbody class="total">
            <tr>
              {columns.map((column, place) => (
                <td key={column.title} class={(column.figure ? "number " : "") + (column.wide ? "wide" : "")}>
                  {total[place]}
                </td>
              ))}
            </tr>
          </tbody>
        )}
        <tbody>
          {first > 0 && <Gap rows={first} />}
          {sorted.slice(first, last).map((row, place) => (
            <tr
              key={row.name}
              aria-rowindex={first + place + 2}
              class={[rowClass?.(row), marked === row.name ? "marked" : ""].filter(Boolean).join(" ") || undefined}
              onMouseEnter={onMark && (() => { onMark(row.name); })}
            >
              {columns.map((column, index) => {
                const shown = column.show ? column.show(row) : column.text(row);
                const kind = (column.figure ? "number " : "") + (column.wide ? "wide" : "");
                return index === 0 ? (
                  <th key={column.title} scope="row" title={column.text(row)}>{shown}</th>
                ) : (
                  <td key={column.title} class={kind} title={column.figure ? undefined : column.text(row)}>{shown}</td>
                );
              })}
            </tr>
          ))}
          {last < rows.length && <Gap rows={rows.length - last} />}
        </tbody>
      </table>
    </div>
  );
}

function Gap({ rows }: { rows: number }) {
  const row = useRef<HTMLTableRowElement>(null);
  useLayoutEffect(() => {
    if (row.current) row.current.style.height = `${rows * ROW}px`;
  }, [rows]);
  return <tr ref={row} class="gap" aria-hidden="true" />;
}
