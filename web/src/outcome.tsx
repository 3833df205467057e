// What came of a change that was tried: both plans, what differs, and the command that would make it.
import { Copyable } from "./copy";
import { count, cpus, percent } from "./format";
import { Bar, NodeLink, Plain, PodLink, StateText } from "./parts";
import { hostAddress, Link } from "./router";

/** A problem as `corewise config check -o json` has it. */
export interface Found {
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

interface OfModel {
  model: string;
  shortModel: string;
  nodes: number;
  beforeCPUMilli: number;
  afterCPUMilli: number;
}

export interface Answer {
  command: string;
  /** Restores what is there now. */
  undo: string;
  problems: Found[];
  plan?: { plans: Planned[] };
  difference?: {
    differs: boolean;
    podsMoved: number | string[];
    podsGained: string[];
    podsLost: string[];
    ratios: { node: string; before: string | null; after: string }[];
    heldBack: { node: string; messages: string[]; already: boolean }[];
    models?: OfModel[];
  };
}

export interface Tried {
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
export function Problems({ of, lines = true }: { of: Found[]; lines?: boolean }) {
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
export function Hosts({ of: { placed, refused } }: { of: Tried }) {
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

export function Outcome({ of, beside }: { of: Answer; beside: boolean }) {
  const { difference } = of;
  const many = (pods: number | string[]): number => (typeof pods === "number" ? pods : pods.length);
  return (
    <>
      {of.problems.length > 0 && !beside && <Problems of={of.problems} lines={false} />}
      {of.plan && (
        <section aria-labelledby="plans">
          <h2 id="plans">All pods placed again</h2>
          <p>
            Both plans start from an empty cluster and place every pod again, once as it is configured now and once with
            the change, so that only the change differs. No running pod moves.
          </p>
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
      {difference?.models && <Models of={difference.models} />}
      {difference && (
        <section aria-labelledby="difference">
          <h2 id="difference">The difference</h2>
          {!difference.differs && <p>The plans do not differ.</p>}
          <ul>
            <Pods of={difference.podsLost} says="fit no node with the change, and fit one now" />
            <Pods of={difference.podsGained} says="fit a node with the change, and fit none now" />
            <li>
              {count(many(difference.podsMoved), "pod")}: on another node in the plan with the change than in the plan
              without it
            </li>
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
          <p>Review it, then paste it into a shell.</p>
          <Copyable text={of.command} label="Command" />
          <details open={!of.undo.includes("\n")}>
            <summary>To undo it: the command that restores what is there now</summary>
            <Copyable text={of.undo} label="Undo command" />
          </details>
        </section>
      )}
    </>
  );
}

function Pods({ of, says }: { of: string[]; says: string }) {
  return (
    <li>
      {count(of.length, "pod")}: {says}
      {of.length > 0 && ": "}
      {of.slice(0, 50).map((name) => <span key={name}><PodLink name={name} /> </span>)}
      {of.length > 50 && `and ${of.length - 50} more`}
    </li>
  );
}

const MOST_MODELS = 20;

/** What the nodes of each model offer, as bars: one scale for all. */
function Models({ of }: { of: OfModel[] }) {
  const most = Math.max(1, ...of.flatMap((each) => [each.beforeCPUMilli, each.afterCPUMilli]));
  const bar = (milli: number, kind: string) => (
    <span class="worth">
      <span class="rail" aria-hidden="true"><Bar part={milli / most} kind={kind} /></span>
      <b>{cpus(milli)}</b>
    </span>
  );
  return (
    <section aria-labelledby="models" class="idea ranged">
      <h2 id="models">Schedulable CPUs by model</h2>
      <table>
        <caption class="hidden">Schedulable CPUs of each CPU model, now and with the change</caption>
        <thead>
          <tr>
            <th scope="col">CPU model</th>
            <th scope="col">Now</th>
            <th scope="col">With the change</th>
          </tr>
        </thead>
        <tbody>
          {of.slice(0, MOST_MODELS).map((each) => (
            <tr key={each.model}>
              <th scope="row" title={each.model}>{each.shortModel} <small>{count(each.nodes, "node")}</small></th>
              <td>{bar(each.beforeCPUMilli, "now")}</td>
              <td>{bar(each.afterCPUMilli, each.afterCPUMilli === each.beforeCPUMilli ? "now" : "then")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
