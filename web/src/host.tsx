// Compute hosts: who holds which CPU, the guests, and what an upgrade would move.
import { cpuList } from "./format";
import { List } from "./list";
import { type Held, Machine, type Topology } from "./machine";
import { Crumbs, Figures, Heading, Plain, StateText, Waiting } from "./parts";
import { hostAddress, Link } from "./router";
import { type Row, useDocument } from "./stream";
import type { Column } from "./table";

/** A host that cannot be used has only a reason and a problem. */
interface HostRow extends Row {
  legacy?: boolean;
  dedicatedCPUs?: string;
  sharedCPUs?: string;
  freeDedicatedCPUs?: string;
  guests?: number;
  conflicts?: number;
  reason: string | null;
  problem: string | null;
}

type Amounts = Record<string, number>;

/** What `corewise compute status -o json` prints of a host. */
interface Status {
  cpus: { cpu: number; use: string; guest: string | null }[];
  conflicts: { guest: string; cpus: string; heldBy: string }[];
  guests: {
    guest: string;
    flavor: string;
    state: string;
    vcpus: number;
    cpuPolicy: string;
    threadPolicy: string | null;
    heldCPUs: string;
    resources: Amounts;
  }[];
}

/** What `corewise compute reshape --dry-run -o json` prints. */
interface Reshape {
  before: { inventories: Record<string, Amounts> };
  after: { inventories: Record<string, Amounts> };
  guests: { guest: string; before: Amounts; after: Amounts }[];
  warnings: { reason: string; message: string }[];
}

interface HostDocument {
  host: HostRow;
  topology?: Topology;
  status: Status | null;
  reshape: Reshape | null;
}

const stateOf = (row: HostRow): string => row.reason ?? (row.legacy ? "legacy" : "upgraded");
const State = ({ of }: { of: HostRow }) => <StateText text={stateOf(of)} problem={of.reason !== null} />;

const many = (list: string | undefined): number | null => (list === undefined ? null : cpuList(list).length);

const COLUMNS: Column<HostRow>[] = [
  { title: "Host", text: (row) => row.name, show: (row) => <Link to={hostAddress(row.name)}>{row.name}</Link> },
  { title: "State", text: stateOf, show: (row) => <State of={row} /> },
  { title: "Guests", text: (row) => String(row.guests ?? "-"), figure: (row) => row.guests },
  { title: "Dedicated", text: (row) => String(many(row.dedicatedCPUs) ?? "-"), figure: (row) => many(row.dedicatedCPUs) },
  { title: "Of them free", text: (row) => String(many(row.freeDedicatedCPUs) ?? "-"), figure: (row) => many(row.freeDedicatedCPUs) },
  { title: "Shared", text: (row) => String(many(row.sharedCPUs) ?? "-"), figure: (row) => many(row.sharedCPUs) },
  { title: "Conflicts", text: (row) => String(row.conflicts ?? "-"), figure: (row) => row.conflicts },
  { title: "Problem", text: (row) => row.problem ?? "" },
];

export function HostsView() {
  return (
    <List<HostRow>
      table="hosts"
      title="Compute hosts"
      noun="host"
      columns={COLUMNS}
      texts={(row) => `${row.name} ${stateOf(row)} ${row.problem ?? ""}`}
      above={() => <p><Link to="/what-if?change=flavor">Try a flavor on these hosts</Link></p>}
      empty={<>No compute host is known. Name the folder with their files: <code>corewise web --compute-hosts DIR</code></>}
    />
  );
}

const amounts = (of: Amounts): string => Object.entries(of).map(([name, amount]) => `${amount} ${name}`).join(", ") || "-";

/** Inventories before and after, a line for each class that either has. */
function Inventories({ of: { before, after } }: { of: Reshape }) {
  const classes = [...new Set([...Object.keys(before.inventories), ...Object.keys(after.inventories)])];
  const of = (inventory: Amounts | undefined): string[] => [
    String(inventory?.["total"] ?? "-"), String(inventory?.["reserved"] ?? "-"), String(inventory?.["allocation_ratio"] ?? "-"),
  ];
  return (
    <Plain
      caption="Inventories before and after"
      head={["Class", "Total now", "Reserved now", "Allocation ratio now", "Total then", "Reserved then", "Allocation ratio then"]}
      figures={[1, 2, 3, 4, 5, 6]}
      rows={classes.map((name) => [name, ...of(before.inventories[name]), ...of(after.inventories[name])])}
    />
  );
}

function Upgrade({ host, reshape }: { host: HostRow; reshape: Reshape | null }) {
  return (
    <section aria-labelledby="upgrade">
      <h2 id="upgrade">What an upgrade would move</h2>
      {!host.legacy ? (
        <p>Nothing: the host tells dedicated CPUs (PCPU) from shared ones (VCPU).</p>
      ) : !reshape ? (
        <p>
          Not known here, because the page asks no Placement. This says it:{" "}
          <code>corewise compute reshape --hosts DIR --host {host.name} --dry-run</code>
        </p>
      ) : (
        <>
          <Inventories of={reshape} />
          {reshape.guests.length > 0 && (
            <Plain
              caption="Allocations that an upgrade moves"
              head={["Guest", "Allocation now", "Allocation then"]}
              rows={reshape.guests.map((each) => [each.guest, amounts(each.before), amounts(each.after)])}
            />
          )}
          {reshape.warnings.map((each) => (
            <p key={each.message} class="problem">! {each.reason}: {each.message}</p>
          ))}
        </>
      )}
    </section>
  );
}

export function HostView({ name }: { name: string }) {
  const feed = useDocument<HostDocument>(`hosts/${encodeURIComponent(name)}`);
  const data = feed.data.value;
  if (!data) {
    return (
      <>
        <Crumbs of={[["/hosts", "Compute hosts"]]} here={name} />
        <Heading>Host {name}</Heading>
        <Waiting feed={feed} />
      </>
    );
  }
  const { host, status, topology } = data;
  if (!status || !topology) {
    return (
      <>
        <Crumbs of={[["/hosts", "Compute hosts"]]} here={host.name} />
        <Heading>Host {host.name}</Heading>
        <p class="refused">{host.reason}: {host.problem}</p>
      </>
    );
  }
  const held = new Map<number, Held>(status.cpus.map(({ cpu, use, guest }) => [cpu, { use, owners: guest ? [guest] : [] }]));
  return (
    <>
      <Crumbs of={[["/hosts", "Compute hosts"]]} here={host.name} />
      <Heading>Host {host.name}</Heading>
      <Figures
        of={[
          ["State", <State of={host} />],
          ["Guests", status.guests.length],
          ["Dedicated CPUs", host.dedicatedCPUs || "-"],
          ["Of them free", host.freeDedicatedCPUs || "-"],
          ["Shared CPUs", host.sharedCPUs || "-"],
        ]}
      />
      <div class="sections">
        <Machine
          of={{
            ...topology,
            conflicts: status.conflicts.map(({ guest, cpus, heldBy }) => ({
              pod: guest, cpus, message: `guest ${guest} claims CPUs ${cpus}, which guest ${heldBy} holds`,
            })),
            owners: status.guests.map((each) => ({ pod: each.guest, cpus: each.heldCPUs })),
          }}
          held={held}
          owner="guest"
          more={{
            head: ["Flavor", "State", "vCPUs", "CPU policy", "Thread policy", "Resources"],
            cells: status.guests.map((each) => [
              each.flavor, each.state, each.vcpus, each.cpuPolicy, each.threadPolicy ?? "-", amounts(each.resources),
            ]),
          }}
        />
        <Upgrade host={host} reshape={data.reshape} />
      </div>
    </>
  );
}
