// A change tried on the live cluster: checked as `corewise config check` does, planned as `corewise plan` does;
// or a flavor tried on the compute hosts. Nothing is written and nothing is claimed.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, Hosts, Outcome, Problems, type Tried } from "./outcome";
import { Heading } from "./parts";
import { asked, Link, setQuery, whatIfAddress } from "./router";
import { ask, messageOf, session, token, useTable } from "./stream";
import type { NodeRow } from "./cluster";

type Values = Partial<Record<string, string>>;

interface Field {
  name: string;
  label: string;
  /** What can be chosen, or what is suggested. */
  choices?: string[];
  suggest?: "nodes" | "models" | "keys";
  kind?: "number" | "lines" | "text" | "check";
  first?: string;
}

interface Form {
  title: string;
  fields: Field[];
  /** What is sent beside the kind of the change; it throws a text where a field cannot be read. */
  body?: (values: Values) => Record<string, unknown>;
}

/** KEY=VALUE on each line. */
function pairs(text: string, what: string): Record<string, string> {
  const lines = text.split("\n").map((line) => line.trim());
  return Object.fromEntries(
    lines.filter(Boolean).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`${what}, line ${lines.indexOf(line) + 1}: write KEY=VALUE instead of "${line}".`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

const FORMS: Record<"model" | "ratio" | "label" | "config" | "flavor", Form> = {
  model: {
    title: "A model's normalization ratio",
    fields: [
      { name: "model", label: "CPU model", suggest: "models" },
      {
        name: "field",
        label: "Entry",
        choices: ["baseRatio", "hyperThreadEnabledRatio", "turboEnabledRatio", "hyperThreadTurboEnabledRatio"],
      },
      { name: "ratio", label: "Ratio (empty takes the entry away)" },
    ],
  },
  ratio: {
    title: "An amplification ratio",
    fields: [
      { name: "node", label: "Node (empty: the cluster's strategy)", suggest: "nodes" },
      { name: "resource", label: "Resource", choices: ["cpu", "memory"] },
      { name: "ratio", label: "Ratio (empty takes it away), on top of normalization" },
    ],
  },
  label: {
    title: "A node's label",
    fields: [
      { name: "node", label: "Node", suggest: "nodes" },
      { name: "label", label: "Label" },
      { name: "value", label: "Value (empty takes it away)" },
    ],
  },
  config: {
    title: "A key of the configuration, as text",
    fields: [
      { name: "key", label: "Key of the ConfigMap", suggest: "keys" },
      { name: "text", label: "Its text", kind: "text" },
    ],
  },
  flavor: {
    title: "A flavor on the compute hosts",
    fields: [
      { name: "vcpus", label: "vCPUs", kind: "number", first: "4" },
      { name: "ram", label: "Memory, MiB", kind: "number", first: "4096" },
      { name: "disk", label: "Disk, GiB", kind: "number", first: "0" },
      { name: "specs", label: "Extra specs, KEY=VALUE on each line", kind: "lines", first: "hw:cpu_policy=dedicated" },
      { name: "properties", label: "Properties of the image, KEY=VALUE on each line", kind: "lines" },
      { name: "pack", label: "Fill hosts and NUMA nodes up, instead of spreading guests", kind: "check" },
    ],
    body: (values) => {
      const { specs = "", properties = "", pack } = values;
      return {
        flavor: {
          name: "tried",
          ...Object.fromEntries(["vcpus", "ram", "disk"].map((name) => [name, Number(values[name])])),
          extra_specs: pairs(specs, "Extra specs"),
        },
        image: properties.trim() ? { properties: pairs(properties, "Properties of the image") } : null,
        pack: pack === "true",
      };
    },
  },
};

/** The entry of ratioModel that holds for a node, by its hyper-threading and turbo. */
function entryOf({ hyperThreading, turbo }: NodeRow): string {
  if (hyperThreading) return turbo ? "hyperThreadTurboEnabledRatio" : "hyperThreadEnabledRatio";
  return turbo ? "turboEnabledRatio" : "baseRatio";
}

/** What the nodes that the form is about have now. */
function Now({ kind, values, rows }: { kind: string; values: Values; rows: NodeRow[] }) {
  const [name, model] = [values["node"] ?? "", values["model"] ?? ""];
  const about = rows.filter((row) => (kind === "ratio" ? row.name === name : kind === "model" && row.cpuModel === model));
  if (!about.length) return null;
  const said = new Set(about.map((row) => kind === "ratio"
    ? `normalization ratio ${row.normalizationRatio ?? "1.00"}, amplification ratio ${row.amplificationRatio ?? "1.00"} with it`
    : `${entryOf(row)}, normalization ratio ${row.normalizationRatio ?? "none"}`));
  const [one] = about;
  const onlyItsSpeed = kind === "ratio" && one?.cpuModel && one.amplificationRatio === one.normalizationRatio;
  return (
    <p class="command">
      Now on {kind === "ratio" ? name : about.length === 1 ? about[0]?.name : `${about.length} nodes of this model`}: {[...said].join("; ")}.
      {kind === "ratio" && " A ratio is 1.00 or more, and is multiplied by the normalization ratio."}
      {onlyItsSpeed && <>{" "}No ratio of its own is in it. To lower it, lower the <Link to={whatIfAddress({ change: "model", model: one.cpuModel ?? "" })}>normalization of its CPU model</Link>.</>}
    </p>
  );
}

/** Every field as a text; an empty ratio or value takes something away, an empty node is none. */
function plainBody(form: Form, values: Values): Record<string, unknown> {
  const given = form.fields.map(({ name }): [string, string | null] => [
    name,
    values[name] || (name === "ratio" || name === "value" ? null : ""),
  ]);
  return Object.fromEntries(given.filter(([name, value]) => name !== "node" || value));
}

function Input({ field, value, suggested, onValue }: {
  field: Field;
  value: string;
  suggested: string[];
  onValue: (value: string) => void;
}) {
  const { name, label, choices, suggest, kind } = field;
  if (kind === "check") {
    return (
      <label class="check">
        <input
          name={name}
          type="checkbox"
          checked={value === "true"}
          onChange={(event) => { onValue(String(event.currentTarget.checked)); }}
        />
        {label}
      </label>
    );
  }
  return (
    <label class={kind}>
      {label}
      {choices || (suggest === "keys" && suggested.length) ? (
        <select name={name} value={value} onChange={(event) => { onValue(event.currentTarget.value); }}>
          {(choices ?? suggested).map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
      ) : kind === "lines" || kind === "text" ? (
        <textarea
          name={name}
          rows={kind === "lines" ? 3 : 22}
          spellcheck={false}
          value={value}
          onInput={(event) => { onValue(event.currentTarget.value); }}
        />
      ) : (
        <input
          name={name}
          {...(kind && { inputMode: "numeric", pattern: "[0-9]+", required: true })}
          value={value}
          list={suggest && `known-${suggest}`}
          onInput={(event) => { onValue(event.currentTarget.value); }}
        />
      )}
      {suggest && (
        <datalist id={`known-${suggest}`}>
          {suggested.map((each) => <option key={each} value={each} />)}
        </datalist>
      )}
    </label>
  );
}

export function WhatIfView() {
  const nodes = useTable("nodes");
  const [answer, setAnswer] = useState<Answer | Tried | null>(null);
  const [refused, setRefused] = useState("");
  const [trying, setTrying] = useState(false);
  const [given, setGiven] = useState<Values>({});
  const forms = Object.entries(FORMS).filter(([name]) => name !== "flavor" || session.value?.placement);
  const [kind, form] = forms.find(([name]) => name === asked("change")) ?? ["model", FORMS.model];
  const inForce = useInForce(kind === "config");
  const rows = [...(nodes.data.value?.rows.values() ?? [])] as NodeRow[];
  const suggested = {
    keys: Object.keys(inForce),
    nodes: rows.map((row) => row.name),
    models: [...new Set(rows.map((row) => row.cpuModel).filter((each) => each !== null))].sort(),
  };
  const left = useRef(new AbortController());
  useEffect(() => () => { left.current.abort(); }, []); // the server then ends the trial
  const values: Values = Object.fromEntries(
    form.fields.map(({ name, choices, first }) => [name, given[name] ?? (asked(name) || (first ?? choices?.[0] ?? ""))]),
  );
  if (kind === "model" && !given["field"] && !asked("field")) {
    const one = rows.find((row) => row.cpuModel === values["model"]);
    if (one) values["field"] = entryOf(one);
  }
  if (kind === "config") {
    values["key"] ||= suggested.keys[0] ?? "";
    values["text"] = given[textOf(values["key"])] ?? inForce[values["key"]] ?? "";
  }

  const attempt = async (): Promise<void> => {
    setTrying(true);
    try {
      const body = form.body ? form.body(values) : plainBody(form, values);
      const response = await ask("what-if", {
        method: "POST",
        signal: left.current.signal,
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ change: kind, ...body }),
      });
      const text = await response.text();
      setAnswer(response.ok ? (JSON.parse(text) as Answer | Tried) : null);
      setRefused(response.ok ? "" : messageOf(text) || response.statusText);
    } catch (error) {
      setAnswer(null);
      setRefused(error instanceof TypeError ? "The server of this page does not answer." : (error as Error).message);
    }
    setTrying(false);
  };
  return (
    <>
      <Heading>What if</Heading>
      <p>Try a change on the cluster as it is now. Nothing is written.</p>
      <div class="abreast">
        <form
          class="what-if"
          onSubmit={(event) => {
            event.preventDefault();
            void attempt();
          }}
        >
          <label>
            What to change
            <select
              value={kind}
              onChange={(event) => {
                setQuery({ change: event.currentTarget.value });
                setAnswer(null);
                setRefused("");
              }}
            >
              {forms.map(([name, { title }]) => (
                <option key={name} value={name}>{title}</option>
              ))}
            </select>
          </label>
          <fieldset>
            <legend>{form.title}</legend>
            {form.fields.map((field) => (
              <Input
                key={field.name}
                field={field}
                value={values[field.name] ?? ""}
                suggested={field.suggest ? suggested[field.suggest] : []}
                onValue={(value) => {
                  setGiven({ ...given, [field.name === "text" ? textOf(values["key"] ?? "") : field.name]: value });
                }}
              />
            ))}
            <Now kind={kind} values={values} rows={rows} />
            {kind === "config" && (
              <div role="status" class="checked">
                {answer && "problems" in answer && <Problems of={answer.problems} />}
              </div>
            )}
          </fieldset>
          <button type="submit" disabled={trying}>{trying ? "Trying…" : "Try it"}</button>
        </form>
        <div role="status">
          {refused && <p class="refused">{refused}</p>}
          {answer && ("problems" in answer ? (
            <Outcome of={answer} beside={kind === "config"} />
          ) : (
            <Hosts of={answer} />
          ))}
        </div>
      </div>
    </>
  );
}

/** The name under which the text of a key is kept while it is edited: each key has its own. */
const textOf = (key: string): string => `text of ${key}`;

/** The texts of the ConfigMap's keys as they are now; asked for when they are wanted. */
function useInForce(wanted: boolean): Partial<Record<string, string>> {
  const [texts, setTexts] = useState<Partial<Record<string, string>>>({});
  useEffect(() => {
    if (!wanted) return;
    void ask("what-if")
      .then((answer) => (answer.ok ? (answer.json() as Promise<{ config: Record<string, string> }>) : { config: {} }))
      .then(({ config }) => { setTexts(config); }, () => undefined);
  }, [wanted, token.value]);
  return texts;
}

