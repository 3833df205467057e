// One pod: where it is and why, or why nowhere.
import type { PodRow } from "./lists";
import { cpus, count, gibibytes, measured, number } from "./format";
import { Crumbs, type EventRecord, Events, type Explained, Explanation, Figures, Heading, NodeLink, Plain, StateText, Waiting } from "./parts";
import { nodeAddress } from "./router";
import { useDocument } from "./stream";

interface Verdict {
  plugin: string;
  reason: string | null;
  message: string;
}

interface NodeVerdict {
  node: string;
  suits: boolean;
  verdicts: Verdict[];
  total: number | null;
}

interface Decision {
  nodesAsked?: number;
  nodesSuiting?: number;
  refusals?: { plugin: string; reason: string; summary: string; nodes: number; example: string }[];
  nodes?: NodeVerdict[];
}

interface Quota {
  normalizationRatio: string;
  sharing: string;
  periodMicroseconds: number;
  containers: { name: string; limitCPUMilli: number | null; quotaMicroseconds: number | null }[];
}

interface PodDocument {
  pod: PodRow;
  explanation: Explained;
  quota?: Quota | null;
  waiting?: Explained | null;
  usedRawCPUMilli?: number | null;
  events: EventRecord[];
}

function Why({ decision }: { decision: Decision }) {
  const refused = (decision.nodes ?? []).filter((each) => !each.suits);
  const suiting = (decision.nodes ?? []).filter((each) => each.suits);
  suiting.sort((a, b) => (b.total ?? 0) - (a.total ?? 0));
  return (
    <section aria-labelledby="why">
      <h2 id="why">Which nodes suit it now</h2>
      {decision.nodesAsked !== undefined && (
        <p>
          {decision.nodesSuiting ?? 0} of {count(decision.nodesAsked, "node")}.
        </p>
      )}
      {suiting.length > 0 && (
        <Plain
          caption="Nodes that suit, the best first"
          head={["Node that suits", "Score"]}
          figures={[1]}
          rows={suiting.map((each) => [<NodeLink name={each.node} />, number(each.total)])}
          most={200}
        />
      )}
      {(decision.refusals ?? []).map((refusal) => (
        <details key={refusal.plugin + refusal.summary} open={(decision.refusals ?? []).length === 1}>
          <summary>
            {count(refusal.nodes, "node")}: {refusal.summary} ({refusal.reason})
          </summary>
          <Plain
            caption={`Nodes refused: ${refusal.summary}`}
            head={["Node", "What speaks against it"]}
            rows={refused.flatMap((each) =>
              each.verdicts
                .filter((verdict) => verdict.reason === refusal.reason && verdict.plugin === refusal.plugin)
                .map((verdict) => [<NodeLink name={each.node} />, verdict.message]),
            )}
            most={200}
          />
        </details>
      ))}
    </section>
  );
}

function Quotas({ of }: { of: Quota }) {
  return (
    <section aria-labelledby="quota">
      <h2 id="quota">What its limits buy</h2>
      <p>
        The node&apos;s normalization ratio is {of.normalizationRatio}. A quota is the time on CPUs in each{" "}
        {of.periodMicroseconds} µs; the limit is in normalized CPU, worth the same on every node.
      </p>
      <Plain
        caption="Quotas"
        head={["Container", "Limit, normalized CPUs", "Quota, µs"]}
        figures={[1, 2]}
        rows={of.containers.map((each) => [
          each.name,
          each.limitCPUMilli === null ? "none" : cpus(each.limitCPUMilli),
          each.quotaMicroseconds === null || each.quotaMicroseconds < 0 ? "none" : each.quotaMicroseconds,
        ])}
      />
    </section>
  );
}

const AT_LEAST = 0.95;

/** Say so where a pod runs as much as its quota lets it: then its own limit holds it back, and no neighbor. */
function AtQuota({ quota, used }: { quota: Quota; used: number }) {
  const quotas = quota.containers.map((each) => each.quotaMicroseconds ?? -1);
  if (!quotas.length || quotas.some((each) => each <= 0)) return null;
  const raw = Math.floor((quotas.reduce((sum, each) => sum + each, 0) * 1000) / quota.periodMicroseconds);
  if (used < raw * AT_LEAST) return null;
  return (
    <p>
      <b>It runs at its limit:</b> it uses {measured(used)} of the {measured(raw)} raw CPUs that its quota gives it here, so
      its own limit holds it back. To let it run more, raise the CPU limit of its containers.
    </p>
  );
}

export function PodView({ name }: { name: string }) {
  const feed = useDocument<PodDocument>(`pods/${name.split("/").map(encodeURIComponent).join("/")}`);
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Crumbs of={[["/", "Cluster"], ["/pods", "Pods"]]} here={name} />
        <Heading>Pod {name}</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const { pod } = data;
  return (
    <>
      <Crumbs
        of={[["/", "Cluster"], pod.node ? [nodeAddress(pod.node), pod.node] : ["/pods", "Pods"]]}
        here={pod.name}
      />
      <Heading>Pod {pod.name}</Heading>
      <Figures
        of={[
          ["Node", pod.node ? <NodeLink name={pod.node} /> : "none"],
          ["Class", pod.qosClass ?? "-"],
          ["State", <StateText text={pod.problem ?? pod.phase} problem={pod.problem !== null} />],
          ["CPU requested", cpus(pod.requestedCPUMilli || null)],
          ["Memory requested, GiB", gibibytes(pod.requestedMemoryBytes || null)],
          ["Batch CPU, normalized", cpus(pod.batchCPUNormalizedMilli || null)],
          ["CPUs owned", pod.cpus || "-"],
          ["Used, raw CPUs", measured(data.usedRawCPUMilli)],
        ]}
      />
      <div class="sections">
        {data.quota && pod.node && typeof data.usedRawCPUMilli === "number" && <AtQuota quota={data.quota} used={data.usedRawCPUMilli} />}
        {pod.node && <Explanation of={data.waiting} title="Why it is slow, if it is" command={`corewise explain interference ${pod.name}`} />}
        <Why decision={data.explanation.record} />
        {data.quota && pod.node && <Quotas of={data.quota} />}
        <Explanation of={data.explanation} title="Explanation" command={`corewise explain pod ${pod.name}`} />
        <Events events={data.events} />
      </div>
    </>
  );
}
