// A change tried on the live cluster: checked as `corewise config check` does, planned as `corewise plan` does.
// Nothing is written; the command that would make the change is shown with the answer.
import { useState } from "preact/hooks";
import { cpus, percent } from "./format";
import { Heading, NodeLink, Plain, PodLink } from "./parts";
import { asked, setQuery } from "./router";
import { ask, messageOf, useTable } from "./stream";
import type { NodeRow } from "./cluster";

interface Found {
  severity?: string;
  place?: string;
  message: string;
  line?: number;
  column?: number;
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

type Field = [name: string, label: string, choices?: string[] | "nodes" | "models"];

const CHANGES: Record<string, { title: string; fields: Field[] }> = {
  model: {
    title: "A model's normalization ratio",
    fields: [
      ["model", "CPU model", "models"],
      ["field", "Entry", ["baseRatio", "hyperThreadEnabledRatio", "turboEnabledRatio", "hyperThreadTurboEnabledRatio"]],
      ["ratio", "Ratio (empty takes the entry away)"],
    ],
  },
  ratio: {
    title: "An amplification ratio",
    fields: [
      ["node", "Node (empty: the cluster's strategy)", "nodes"],
      ["resource", "Resource", ["cpu", "memory"]],
      ["ratio", "Ratio (empty takes it away)"],
    ],
  },
  label: {
    title: "A node's label",
    fields: [
      ["node", "Node", "nodes"],
      ["label", "Label"],
      ["value", "Value (empty takes it away)"],
    ],
  },
};

export function WhatIfView() {
  const nodes = useTable("nodes");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [refused, setRefused] = useState("");
  const [trying, setTrying] = useState(false);
  const [values, setValues] = useState<Record<string, string>>({});
  const kind = asked("change", "model");
  const form = CHANGES[kind] ?? CHANGES["model"];
  const rows = [...(nodes.data.value?.rows.values() ?? [])] as NodeRow[];
  const offered = {
    nodes: rows.map((row) => row.name),
    models: [...new Set(rows.map((row) => row.cpuModel).filter((each) => each !== null))].sort(),
  };

  const attempt = async (): Promise<void> => {
    const body: Record<string, string | null> = { change: kind };
    for (const [name, , choices] of form?.fields ?? []) {
      const value = values[name] ?? (Array.isArray(choices) ? choices[0] : "") ?? "";
      if (value || name !== "node") body[name] = value || (name === "ratio" || name === "value" ? null : "");
    }
    setTrying(true);
    try {
      const given = await ask("what-if", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      const text = await given.text();
      setAnswer(given.ok ? (JSON.parse(text) as Answer) : null);
      setRefused(given.ok ? "" : messageOf(text) || given.statusText);
    } catch {
      setRefused("The server of this page does not answer.");
    }
    setTrying(false);
  };
  return (
    <>
      <Heading>What if</Heading>
      <p>Try a change on the cluster as it is now. Nothing is written.</p>
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
            {Object.entries(CHANGES).map(([name, { title }]) => (
              <option key={name} value={name}>{title}</option>
            ))}
          </select>
        </label>
        <fieldset>
          <legend>{form?.title}</legend>
          {form?.fields.map(([name, label, choices]) => (
            <label key={name}>
              {label}
              {Array.isArray(choices) ? (
                <select
                  name={name}
                  value={values[name] ?? choices[0] ?? ""}
                  onChange={(event) => { setValues({ ...values, [name]: event.currentTarget.value }); }}
                >
                  {choices.map((each) => <option key={each} value={each}>{each}</option>)}
                </select>
              ) : (
                <>
                  <input
                    name={name}
                    value={values[name] ?? ""}
                    list={choices && `known-${choices}`}
                    onInput={(event) => { setValues({ ...values, [name]: event.currentTarget.value }); }}
                  />
                  {choices && (
                    <datalist id={`known-${choices}`}>
                      {offered[choices].map((each) => <option key={each} value={each} />)}
                    </datalist>
                  )}
                </>
              )}
            </label>
          ))}
        </fieldset>
        <button type="submit" disabled={trying}>{trying ? "Trying…" : "Try it"}</button>
      </form>
      <div role="status">
        {refused && <p class="refused">{refused}</p>}
        {answer && <Outcome of={answer} />}
      </div>
    </>
  );
}

function Outcome({ of }: { of: Answer }) {
  const { difference } = of;
  const many = (pods: number | string[]): number => (typeof pods === "number" ? pods : pods.length);
  return (
    <>
      {of.problems.length > 0 && (
        <section class="problems" aria-labelledby="found">
          <h2 id="found">What the check finds</h2>
          <ul>
            {of.problems.map((each) => (
              <li key={each.message}>
                {each.place ? `${each.place}: ` : ""}
                {each.message}
              </li>
            ))}
          </ul>
        </section>
      )}
      {of.plan && (
        <section aria-labelledby="plans">
          <h2 id="plans">All pods placed anew</h2>
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
      <h2>The command that would make the change</h2>
      <pre tabIndex={0} role="group" aria-label="Command">{of.command}</pre>
    </>
  );
}
