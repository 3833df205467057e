// Which columns of a table are shown: the address keeps the choice. Without one, all but the wide ones are, and on a very
// wide screen those too (style.css).
import { asked, setQuery } from "./router";
import type { Row } from "./stream";
import type { Column } from "./table";

const KEY = "columns";
const keyOf = (title: string): string => title.toLowerCase().replaceAll(" ", "-");

/** The columns to show; the first one names the row, so it always is. */
export function chosenColumns<R extends Row>(columns: Column<R>[]): Column<R>[] {
  const wanted = new Set(asked(KEY).split(",").filter(Boolean));
  if (!wanted.size) return columns;
  return columns
    .filter(({ title }, place) => place === 0 || wanted.has(keyOf(title)))
    .map((column) => ({ ...column, wide: false }));
}

export function ColumnChooser<R extends Row>({ columns }: { columns: Column<R>[] }) {
  const chosen = asked(KEY);
  const now = new Set(chosen ? chosen.split(",") : columns.filter((each) => !each.wide).map((each) => keyOf(each.title)));
  const change = (title: string, on: boolean): void => {
    if (on) now.add(keyOf(title));
    else now.delete(keyOf(title));
    const first = columns[0];
    if (first) now.add(keyOf(first.title)); // an empty choice would mean none was made
    setQuery({ [KEY]: columns.map((each) => keyOf(each.title)).filter((each) => now.has(each)).join(",") });
  };
  return (
    <details class="columns">
      <summary>Columns</summary>
      <fieldset>
        <legend class="hidden">Columns to show</legend>
        {columns.slice(1).map(({ title }) => (
          <label key={title}>
            <input type="checkbox" checked={now.has(keyOf(title))} onChange={(event) => { change(title, event.currentTarget.checked); }} />
            {title}
          </label>
        ))}
        {chosen && <button type="button" onClick={() => { setQuery({ [KEY]: "" }); }}>Usual columns</button>}
      </fieldset>
    </details>
  );
}
