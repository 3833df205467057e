// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { asked, Link, nodeAddress, podAddress, setQuery } from "./router";
import type { Feed, Json } from "./stream";

export function Heading({ children }: { children: ComponentChildren }) {
  return <h1 tabIndex={-1}>{children}</h1>;
}

/** What is shown until data has come, and instead of it when the server refuses. */
export function Waiting({ feed }: { feed: Feed<unknown> }) {
  return feed.state.value === "failed" ? (
    <div class="refused" role="alert">
      <p>{feed.message.value}</p>
      <p><Link to="/">Show the cluster</Link></p>
    </div>
  ) : (
    <p>Loading…</p>
  );
}

/** Where a view is in the page: the views above it, then its own name. */
export function Crumbs({ of, here }: { of: [string, string][]; here: string }) {
  return (
    <nav class="crumbs" aria-label="Breadcrumb">
      <ol>
        {of.map(([to, text]) => <li key={to}><Link to={to}>{text}</Link></li>)}
        <li aria-current="page">{here}</li>
      </ol>
    </nav>
  );
}

/** A severity is said by a sign and a word, never by color alone. */
export function Severity({ of }: { of: string }) {
  const [sign, text] = of === "error" ? ["!", "Act"] : of === "warning" ? ["~", "Clears itself"] : ["✓", "Over"];
  return <span class={`severity ${of}`}><span aria-hidden="true">{sign} </span>{text}</span>;
}

export function ObjectLink({ kind, name }: { kind: string; name: string }) {
  if (kind === "Node") return <NodeLink name={name} />;
  if (kind === "Pod") return <PodLink name={name} />;
  return <>{`${kind} ${name}`}</>;
}

export function Remarks({ lines }: { lines: readonly string[] }) {
  if (!lines.length) return null;
  return (
    <ul class="remarks" aria-label="Remarks">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

/** Amounts side by side, each with its name. */
export function Figures({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="figures">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A severity is said by a sign and a word, never by color alone. */
export function StateText({ text, problem }: { text: string; problem: boolean }) {
  return problem ? (
    <span class="problem">
      <span aria-hidden="true">! </span>
      {text}
    </span>
  ) : (
    <>{text}</>
  );
}

export function Search({ label }: { label: string }) {
  return (
    <label>
      {label}
      <input
        type="search"
        value={asked("q")}
        onInput={(event) => { setQuery({ q: event.currentTarget.value }); }}
      />
    </label>
  );
}

/** A choice that the address keeps; the first one is the one that an address without it means. */
export function Choose({ label, name, options }: { label: string; name: string; options: [string, string][] }) {
  const first = options[0]?.[0] ?? "";
  return (
    <label>
      {label}
      <select
        value={asked(name, first)}
        onChange={(event) => {
          const { value } = event.currentTarget;
          setQuery({ [name]: value === first ? "" : value });
        }}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Rows whose texts contain every word of the search. */
export function found<R>(rows: R[], words: string, texts: (row: R) => string): R[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((row) => {
    const text = texts(row).toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** A table of texts, of whose rows the first `most` are shown; it says how many are not. */
export function Plain({ caption, head, rows, figures = [], most = Infinity }: {
  caption: string;
  head: string[];
  rows: ComponentChildren[][];
  figures?: number[];
  most?: number;
}) {
  return (
    <div class="plain-table" tabIndex={0} role="group" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {head.map((each, place) => (
              <th key={each} scope="col" class={figures.includes(place) ? "number" : undefined}>{each}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, most).map((row, line) => (
            <tr key={line}>
              {row.map((cell, place) =>
                place === 0 ? (
                  <th key={place} scope="row">{cell}</th>
                ) : (
                  <td key={place} class={figures.includes(place) ? "number" : undefined}>{cell}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > most && <p>{rows.length - most} more are not shown.</p>}
    </div>
  );
}

export interface EventRecord {
  reason: string;
  type: string;
  message: string;
  count: number;
  last: string | null;
  component?: string;
}

export function Events({ events }: { events: EventRecord[] | null | undefined }) {
  return (
    <section aria-labelledby="events">
      <h2 id="events">Events</h2>
      {events?.length ? (
        <Plain
          caption="Events"
          head={["Reason", "Type", "Count", "Last", "From", "Message"]}
          figures={[2]}
          rows={events.map((each) => [
            each.reason, each.type, each.count, each.last ?? "-", each.component ?? "-", each.message,
          ])}
        />
      ) : (
        <p>There are no Events of corewise about it.</p>
      )}
    </section>
  );
}

export interface Explained {
  record: Record<string, Json>;
  text: string;
  missing: string[];
}

export function Explanation({ of, title, command }: { of: Explained | null | undefined; title: string; command: string }) {
  if (!of) return null;
  const id = `explain-${title.toLowerCase().replaceAll(/\W+/g, "-")}`;
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <pre tabIndex={0} role="group" aria-label={title}>{of.text}</pre>
      <Remarks lines={of.missing} />
      <p class="command">
        The same on the command line: <code>{command}</code>
      </p>
    </section>
  );
}

/** A bar whose length comes from script: style attributes are not allowed. */
export function Bar({ part, kind }: { part: number; kind: string }) {
  const bar = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (bar.current) bar.current.style.width = `${Math.max(0, Math.min(100, part * 100))}%`;
  }, [part]);
  return <span ref={bar} class={`bar ${kind}`} />;
}

export const NodeLink = ({ name }: { name: string }) => <Link to={nodeAddress(name)}>{name}</Link>;
export const PodLink = ({ name }: { name: string }) => <Link to={podAddress(name)}>{name}</Link>;
