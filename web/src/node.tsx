// One node: from raw CPU to what is free, the machine, what it does lately, and why.
import { type History, HistoryCharts, Series } from "./chart";
import type { NodeRow } from "./cluster";
import { cpus, gibibytes, measured, number, percent } from "./format";
import { type Interference, InterferenceView } from "./interference";
import { Machine, type Topology } from "./machine";
import { Bar, Crumbs, type EventRecord, Events, type Explained, Explanation, Figures, Heading, Severity, StateText, Waiting } from "./parts";
import { Link, whatIfAddress } from "./router";
import type { OfflineRow } from "./lists";
import { type NodePod, NodePods } from "./nodepods";
import { type Json, useDocument } from "./stream";

interface NodeDocument {
  node: NodeRow;
  topology: Topology | null;
  explanation: Explained;
  suppression: Explained | null;
  interference?: Interference | null;
  history?: History | null;
  pods?: NodePod[];
  podsRemark?: string;
  /** Of each problem's reason. */
  severities?: Record<string, string>;
  offline?: OfflineRow | null;
  events: EventRecord[];
}

type Step = [string, number | null, string];

/** From the whole machine to what is free: each amount with how it comes from the one above it. */
function steps(node: NodeRow, owned: number | null): Step[] {
  const held = owned ? [["Owned", owned, "by pods that own their CPUs, part of requested"] as Step] : [];
  return [
    ["Raw capacity", node.rawCapacityCPUMilli, "as the kernel counts"],
    ["Raw allocatable", node.rawAllocatableCPUMilli, "what is left for pods"],
    ["Normalized", node.normalizedCPUMilli, `raw allocatable × ${node.normalizationRatio ?? "1.00 (no ratio applied)"}`],
    ["Schedulable", node.schedulableCPUMilli, `raw allocatable × ${node.amplificationRatio ?? "1.00"}, as the status says`],
    ...held,
    [
      "Requested",
      node.requestedCPUMilli,
      `by all pods${percent(node.requestedCPUMilli, node.schedulableCPUMilli)}, of schedulable`,
    ],
    ["Free", node.freeCPUMilli, "for new pods"],
  ];
}

function Bars({ node, owned }: { node: NodeRow; owned: number | null }) {
  const shown = steps(node, owned);
  const largest = Math.max(1, ...shown.map(([, milli]) => milli ?? 0));
  return (
    <section aria-labelledby="amounts">
      <h2 id="amounts">From raw to free CPU</h2>
      <table class="bars">
        <caption class="hidden">Amounts of CPU, each with how it comes about</caption>
        <thead class="hidden">
          <tr>
            <th scope="col">Amount</th>
            <th scope="col">CPUs</th>
            <th scope="col">Share of the largest</th>
            <th scope="col">How it comes about</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(([name, milli, why]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class="number">{cpus(milli)}</td>
              <td class="track" aria-hidden="true">
                <Bar part={(milli ?? 0) / largest} kind={name.toLowerCase().replace(" ", "-")} />
              </td>
              <td class="why">{why}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface Problem {
  reason: string;
  message: string;
  fix: string | null;
}

function Problems({ of, severities }: { of: Json[]; severities: Record<string, string> }) {
  const problems = of as unknown as Problem[];
  if (!problems.length) return null;
  const severityOf = ({ reason }: Problem): string => severities[reason] ?? "error";
  const worst = problems.some((each) => severityOf(each) === "error") ? "error" : "warning";
  return (
    <section aria-labelledby="problems" class={`problems ${worst}`}>
      <h2 id="problems">Problems</h2>
      <dl>
        {problems.map((each) => (
          <div key={each.reason}>
            <dt>
              <Severity of={severityOf(each)} /> <b>{each.reason}</b>
            </dt>
            <dd>{each.message}</dd>
            {each.fix && <dd>To fix: {each.fix}</dd>}
          </div>
        ))}
      </dl>
    </section>
  );
}

const listOf = (of: Json | undefined): Json[] => (Array.isArray(of) ? of : []);

interface Report {
  online: number[];
  offline: number[];
  intervalSeconds: number;
  offeredMilli: number;
  suppression: { quotaMilli: number | null; targetMilli: number | null; why: string } | null;
  allocatableMilli: number;
  onlineMilli: number;
  offlineMilli: number;
}

interface LatelyProps {
  suppression: Explained | null;
  history: History | null | undefined;
  limit: string;
}

/** "0.60 of idle", in words. */
function Limit({ of }: { of: string }) {
  const share = /^(.*: )?([0-9.]+) of idle/.exec(of)?.[2];
  if (!of) return null;
  return (
    <p>
      Offline work is limited by: <b>{of}</b>.
      {share && ` Offline pods are offered ${share} of the CPU that online pods leave idle, and their quota holds them to the offer.`}
    </p>
  );
}

function Lately({ suppression, history, limit }: LatelyProps) {
  const report = suppression?.record["report"] as unknown as Report | null | undefined;
  if (!report && !history) return null;
  return (
    <section aria-labelledby="lately">
      <h2 id="lately">Lately</h2>
      <Limit of={limit} />
      {report && (
        <>
          <Figures
            of={[
              ["Online", measured(report.onlineMilli) + percent(report.onlineMilli, report.allocatableMilli)],
              ["Offline", measured(report.offlineMilli) + percent(report.offlineMilli, report.allocatableMilli)],
              ["Offered", measured(report.offeredMilli)],
              ["Quota", measured(report.suppression?.quotaMilli)],
              ["Target", measured(report.suppression?.targetMilli)],
            ]}
          />
          {!history && (
            <Series
              title="Used, raw CPUs"
              step={report.intervalSeconds}
              lines={[
                { name: "Online", values: report.online },
                { name: "Offline", values: report.offline },
              ]}
            />
          )}
        </>
      )}
      {history && <HistoryCharts of={history} />}
    </section>
  );
}

export function NodeView({ name }: { name: string }) {
  const feed = useDocument<NodeDocument>(`nodes/${encodeURIComponent(name)}`);
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Crumbs of={[["/", "Cluster"]]} here={name} />
        <Heading>Node {name}</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const { node, explanation, suppression } = data;
  const requested = explanation.record["requested"] as { ownedCPUMilli: number } | null | undefined;
  return (
    <>
      <Crumbs of={[["/", "Cluster"]]} here={node.name} />
      <Heading>Node {node.name}</Heading>
      <Figures
        of={[
          ["Model", node.cpuModel ?? "-"],
          ["Normalization ratio", node.normalizationRatio ?? "-"],
          ["Amplification ratio", node.amplificationRatio ?? "-"],
          ["Memory requested, GiB", gibibytes(node.requestedMemoryBytes) + percent(node.requestedMemoryBytes, node.schedulableMemoryBytes)],
          ["Offline offered", measured(node.offlineOfferedCPUMilli)],
          ["Offline work limited by", data.offline?.limitedBy ?? "nothing is offered"],
          ["Native BestEffort pods", number(node.nativeBestEffortPods)],
          ["State", <StateText text={node.state || "settled"} problem={node.problem !== null} />],
        ]}
      />
      <p class="command">
        Try another ratio: <Link to={whatIfAddress({ change: "ratio", node: node.name })}>amplification of this node</Link>
        {node.cpuModel && <>{" · "}<Link to={whatIfAddress({ change: "model", model: node.cpuModel })}>normalization of its CPU model</Link></>}
      </p>
      <NodePods pods={data.pods ?? []} remark={data.podsRemark ?? ""} />
      <div class="sections">
        <Problems
          of={[...listOf(explanation.record["problems"]), ...listOf(suppression?.record["problems"])]}
          severities={data.severities ?? {}}
        />
        <Bars node={node} owned={requested?.ownedCPUMilli ?? null} />
        {data.topology ? (
          <Machine of={data.topology} />
        ) : (
          <p>The node has no NodeResourceTopology, so its CPUs cannot be drawn. The agent writes it.</p>
        )}
        <Lately suppression={suppression} history={data.history} limit={data.offline?.limitedBy ?? ""} />
        {data.interference && <InterferenceView of={data.interference} />}
        <Explanation of={explanation} title="Ratios" command={`corewise explain node ${name}`} />
        <Explanation of={suppression} title="Offer and suppression" command={`corewise explain suppression ${name}`} />
        <Events events={data.events} />
      </div>
    </>
  );
}
