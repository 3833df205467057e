// A change tried on the live cluster: checked as `corewise config check` does, planned as `corewise plan` does;
// or a flavor tried on the compute hosts. Nothing is written and nothing is claimed.
import { useEffect, useRef, useState } from "preact/hooks";
import { cpus, percent } from "./format";
import { Bar, Heading, NodeLink, Plain, PodLink, StateText } from "./parts";
import { asked, hostAddress, Link, setQuery } from "./router";
import { ask, messageOf, session, token, useTable } from "./stream";
import type { NodeRow } from "./cluster";

/** A problem as `corewise config check -o json` has it. */
interface Found {
  severity: string;
  path: string;
  message: string;
  line: number;
}

interface Planned {
  configuration: string;
  scheduled: number;
  unscheduled: number;
  nodesUsed: number;
  schedulableMilliCPU: number;
  requestedMilliCPU: number;
}

interface Answer {
  command: string;
  problems: Found[];
  plan?: { plans: Planned[] };
  difference?: {
    differs: boolean;
    podsMoved: number | string[];
    podsGained: string[];
    podsLost: string[];
    ratios: { node: string; before: string | null; after: string }[];
    heldBack: { node: string; messages: string[]; already: boolean }[];
  };
}

interface Tried {
  placed: {
    host: string;
    resources: Record<string, number>;
    cells: { hostNode: number; memoryMiB: number }[];
    pinnedCPUs: string;
    emulatorCPU: number | null;
    withheldCPUs: string;
    hosts: { host: string; freeCPUs: number; interferenceScore: number | null; score: number }[];
    lost: Record<string, string>;
  } | null;
  refused: {
    reason: string;
    message: string;
    hosts: number;
    fallen: { hosts: number; demand: string; reason: string | null }[] | null;
    details: string[];
  } | null;
}

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
      { name: "ratio", label: "Ratio (empty takes it away)" },
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
    form.fields.map(({ name, choices, first }) => [name, given[name] ?? first ?? choices?.[0] ?? ""]),
  );
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

/** Put the cursor on a line of the text that a problem is about. */
function showLine(line: number): void {
  const text = document.querySelector<HTMLTextAreaElement>("textarea[name=text]");
  if (!text) return;
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  text.scrollTop = ((line - 3) * text.scrollHeight) / lines.length;
}

/** What the check finds in a text, each with the line that it is about. */
function Problems({ of, lines = true }: { of: Found[]; lines?: boolean }) {
  return (
    <section class={of.some((each) => each.severity === "error") ? "problems" : "remarks"} aria-labelledby="found">
      <h2 id="found">What the check finds</h2>
      {of.length === 0 && <p>No problems.</p>}
      <ul>
        {of.map((each, place) => (
          <li key={place}>
            {lines && <button type="button" onClick={() => { showLine(each.line); }}>Line {each.line}</button>}{" "}
            <StateText text={each.severity} problem={each.severity === "error"} />: {each.path && `${each.path}: `}
            {each.message}
          </li>
        ))}
      </ul>
    </section>
  );
}

const HostLink = ({ name }: { name: string }) => <Link to={hostAddress(name)}>{name}</Link>;

/** Which host would take the guest; or which demand eliminates how many hosts. */
function Hosts({ of: { placed, refused } }: { of: Tried }) {
  return (
    <section aria-labelledby="tried">
      <h2 id="tried">{placed ? <>Host <HostLink name={placed.host} /> would take it</> : "No host can take it"}</h2>
      {placed && (
        <>
          <ul>
            <li>
              Resources:{" "}
              {Object.entries(placed.resources).map(([name, amount]) => `${amount} ${name}`).join(", ")}
            </li>
            {placed.cells.map((cell) => (
              <li key={cell.hostNode}>NUMA node {cell.hostNode}: {cell.memoryMiB} MiB</li>
            ))}
            <li>{placed.pinnedCPUs ? `Pinned to CPUs ${placed.pinnedCPUs}` : "It floats over the shared CPUs of the host"}</li>
            {placed.emulatorCPU !== null && <li>Emulator threads on CPU {placed.emulatorCPU}</li>}
            {placed.withheldCPUs && <li>CPUs {placed.withheldCPUs} are kept empty</li>}
          </ul>
          <Plain
            caption="Hosts that can take it, the best first"
            head={["Host", "Free CPUs", "Interference score", "Score"]}
            figures={[1, 2, 3]}
            rows={placed.hosts.map((each) => [
              <HostLink name={each.host} />, each.freeCPUs, each.interferenceScore ?? "-", each.score,
            ])}
          />
          {Object.entries(placed.lost).map(([host, message]) => (
            <p key={host}><HostLink name={host} />: {message}</p>
          ))}
        </>
      )}
      {refused && (
        <>
          <p class="refused">{refused.reason}: {refused.message}</p>
          {refused.fallen && refused.fallen.length > 0 && (
            <Plain
              caption="Hosts that each step eliminates"
              head={["Step", "Hosts eliminated", `Of ${refused.hosts}`, "Reason"]}
              figures={[1]}
              rows={refused.fallen.map((each) => [
                each.demand,
                each.hosts,
                <Bar part={each.hosts / Math.max(1, refused.hosts)} kind="eliminated" />,
                each.reason ?? "-",
              ])}
            />
          )}
          <ul>{refused.details.map((each) => <li key={each}>{each}</li>)}</ul>
        </>
      )}
    </section>
  );
}

function Outcome({ of, beside }: { of: Answer; beside: boolean }) {
  const { difference } = of;
  const many = (pods: number | string[]): number => (typeof pods === "number" ? pods : pods.length);
  return (
    <>
      {of.problems.length > 0 && !beside && <Problems of={of.problems} lines={false} />}
      {of.plan && (
        <section aria-labelledby="plans">
          <h2 id="plans">All pods placed again</h2>
          <Plain
            caption="Both plans"
            head={["Plan", "Pods scheduled", "Unscheduled", "Nodes used", "Schedulable CPUs", "Requested"]}
            figures={[1, 2, 3, 4, 5]}
            rows={of.plan.plans.map((each) => [
              each.configuration,
              each.scheduled,
              each.unscheduled,
              each.nodesUsed,
              cpus(each.schedulableMilliCPU),
              cpus(each.requestedMilliCPU) + percent(each.requestedMilliCPU, each.schedulableMilliCPU),
            ])}
          />
        </section>
      )}
      {difference && (
        <section aria-labelledby="difference">
          <h2 id="difference">The difference</h2>
          {!difference.differs && <p>The plans do not differ.</p>}
          <ul>
            <li>
              {difference.podsLost.length} pods lose their place
              {difference.podsLost.length > 0 && ": "}
              {difference.podsLost.slice(0, 50).map((name) => <span key={name}><PodLink name={name} /> </span>)}
            </li>
            <li>
              {difference.podsGained.length} pods gain a place
              {difference.podsGained.length > 0 && ": "}
              {difference.podsGained.slice(0, 50).map((name) => <span key={name}><PodLink name={name} /> </span>)}
            </li>
            <li>{many(difference.podsMoved)} pods would be placed on another node</li>
          </ul>
          {difference.ratios.length > 0 && (
            <Plain
              caption="Nodes with another ratio"
              head={["Node", "Ratio now", "With the change"]}
              rows={difference.ratios.map((each) => [<NodeLink name={each.node} />, each.before ?? "-", each.after])}
            />
          )}
          {difference.heldBack.map((each) => (
            <p key={each.node}>
              <NodeLink name={each.node} />: the decrease is held back{each.already ? ", as it is now" : ""}.{" "}
              {each.messages.join(" ")}
            </p>
          ))}
        </section>
      )}
      {of.plan && (
        <section aria-labelledby="command">
          <h2 id="command">The command that would make the change</h2>
          <pre tabIndex={0} role="group" aria-label="Command">{of.command}</pre>
        </section>
      )}
    </>
  );
}
