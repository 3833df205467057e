// The machine drawn: sockets, NUMA nodes, last-level caches, cores and their CPUs, and which pod owns which.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count, cpuList, gibibytes } from "./format";
import { Plain, PodLink } from "./parts";

interface Thread {
  cpu: number;
  core: number;
  cache: number | null;
  numaNode: number;
  socket: number;
}

/** What a CPU is used for, and by whom. */
export interface Held {
  use: string;
  owners: string[];
}

/** What `corewise topology -o json` prints, and who owns the CPUs. */
export interface Topology {
  onlineCPUs: string;
  offlineCPUs: string;
  numaNodes: { numaNode: number; memoryBytes: number | null }[];
  caches: { cache: number; level: number; sizeBytes: number | null }[];
  threads: Thread[];
  sharedCPUs?: string;
  freeCPUs?: string;
  reservedCPUs?: string;
  owners?: { pod: string; cpus: string }[];
  conflicts?: { pod: string; cpus: string; reason?: string; message: string }[];
}

function grouped<T>(items: T[], by: (item: T) => number | null): [number | null, T[]][] {
  const groups = new Map<number | null, T[]>();
  for (const item of items) {
    const key = by(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return [...groups].sort(([a], [b]) => (a ?? 0) - (b ?? 0));
}

/** How a use is drawn: its class, its sign (# is the number of the owner), and what the legend says. */
const LOOKS: Partial<Record<string, [kind: string, sign: string, text: string]>> = {
  owned: ["owned", "#", "owned by pod 1 of the table"],
  reserved: ["reserved", "R", "reserved for the system"],
  // The uses of a compute host are named as `corewise compute status` names them.
  pinned: ["owned", "#", "pinned: it belongs to guest 1 of the table"],
  "emulator threads": ["owned", "#e", "emulator threads of guest 1"],
  "kept empty": ["withheld", "#", "kept empty for guest 1"],
  "dedicated, free": ["dedicated", "D", "dedicated, free"],
  shared: ["free", "", "shared"],
  "shared, may be pinned": ["free", "B", "shared, may be pinned"],
  host: ["reserved", "H", "kept for the host itself"],
};

function heldOn(of: Topology): Map<number, Held> {
  const held = new Map<number, Held>(of.threads.map(({ cpu }) => [cpu, { use: "shared", owners: [] }]));
  for (const cpu of cpuList(of.reservedCPUs)) held.set(cpu, { use: "reserved", owners: [] });
  for (const { pod, cpus } of of.owners ?? []) {
    for (const cpu of cpuList(cpus)) held.set(cpu, { use: "owned", owners: [...(held.get(cpu)?.owners ?? []), pod] });
  }
  return held;
}

interface MachineProps {
  of: Topology;
  owner?: "pod" | "guest";
  held?: Map<number, Held>;
  /** More columns of the table of owners. */
  more?: { head: string[]; cells: ComponentChildren[][] };
}

export function Machine({ of, owner = "pod", held = heldOn(of), more }: MachineProps) {
  const [lit, setLit] = useState("");
  const owners = of.owners ?? [];
  const numbers = new Map(owners.map((each, place) => [each.pod, place + 1]));
  const conflicts = new Set((of.conflicts ?? []).flatMap((each) => cpuList(each.cpus)));
  const offline = cpuList(of.offlineCPUs);
  const uses = Object.keys(LOOKS).filter((use) => [...held.values()].some((each) => each.use === use));

  const cell = (thread: Thread) => {
    const { use, owners: names } = held.get(thread.cpu) ?? { use: "shared", owners: [] };
    const [kind, sign] = conflicts.has(thread.cpu) ? ["conflict", "!"] : (LOOKS[use] ?? ["free", ""]);
    const shown = sign.replace("#", names.map((name) => numbers.get(name) ?? "?").join("+"));
    return (
      <span
        key={thread.cpu}
        class={`cpu ${kind} ${names.includes(lit) ? "lit" : ""}`}
        title={`CPU ${thread.cpu}: ${use}${names.length ? ` (${names.join(", ")})` : ""}`}
      >
        {thread.cpu}
        {shown && <small>{shown}</small>}
      </span>
    );
  };
  const memory = new Map(of.numaNodes.map((each) => [each.numaNode, each.memoryBytes]));
  const sizes = new Map(of.caches.map((each) => [each.cache, each]));
  const described = [
    count(new Set(of.threads.map((each) => each.socket)).size, "socket"),
    count(of.numaNodes.length, "NUMA node"),
    ...(of.caches.length ? [count(of.caches.length, "last-level cache")] : []),
    count(new Set(of.threads.map((each) => each.core)).size, "core"),
    `${count(of.threads.length, "CPU")} online`,
  ].join(", ");

  return (
    <section aria-labelledby="machine">
      <h2 id="machine">Machine</h2>
      <p>
        {described}
        {offline.length > 0 && `; CPUs ${of.offlineCPUs} are offline`}.
      </p>
      <div class="machine" role="img" aria-label={`${described}; the table of owners says the same`}>
        {grouped(of.threads, (each) => each.socket).map(([socket, onSocket]) => (
          <div key={socket} class="socket">
            <b>Socket {socket}</b>
            {grouped(onSocket, (each) => each.numaNode).map(([numa, onNode]) => (
              <div key={numa} class="numa">
                <b>
                  NUMA node {numa}
                  {memory.get(numa ?? -1) ? ` · ${gibibytes(memory.get(numa ?? -1))} GiB` : ""}
                </b>
                <div class="caches">
                  {grouped(onNode, (each) => each.cache).map(([cache, inCache]) => (
                    <div key={cache} class="cache">
                      {cache !== null && <i>{cacheName(sizes.get(cache))}</i>}
                      <div class="cores">
                        {grouped(inCache, (each) => each.core).map(([core, threads]) => (
                          <span key={core} class="core">
                            {threads.map(cell)}
                          </span>
                        ))}
                      </div>
                    </div>
                  ))}
                </div>
              </div>
            ))}
          </div>
        ))}
        {offline.length > 0 && (
          <div class="socket off">
            <b>Offline</b>
            <div class="cores">
              {offline.map((cpu) => (
                <span key={cpu} class="cpu offline" title={`CPU ${cpu}: offline`}>{cpu}</span>
              ))}
            </div>
          </div>
        )}
      </div>
      <ul class="legend" aria-label="What the drawing shows">
        {uses.map((use) => {
          const [kind, sign, text] = LOOKS[use] ?? [];
          return (
            <li key={use}>
              <span class={`cpu ${kind ?? ""}`}>0{sign && <small>{sign.replace("#", "1")}</small>}</span> {text}
            </li>
          );
        })}
        {conflicts.size > 0 && <li><span class="cpu conflict">0<small>!</small></span> claimed twice</li>}
      </ul>
      {owners.length > 0 ? (
        <Plain
          caption={owner === "pod" ? "Owners of CPUs" : "Guests"}
          head={["Number", owner === "pod" ? "Pod" : "Guest", "CPUs", "How many", ...(more?.head ?? [])]}
          figures={[3]}
          rows={owners.map((each, place) => [
            <button
              type="button"
              aria-pressed={lit === each.pod}
              onClick={() => { setLit(lit === each.pod ? "" : each.pod); }}
            >
              {place + 1}
              <span class="hidden"> show in the drawing</span>
            </button>,
            owner === "pod" ? <PodLink name={each.pod} /> : each.pod,
            each.cpus ? each.cpus.split(/(?<=,)/).map((part) => <span class="whole">{part}</span>) : "-",
            cpuList(each.cpus).length,
            ...(more?.cells[place] ?? []),
          ])}
        />
      ) : (
        <p>No {owner} owns CPUs here.</p>
      )}
      {(of.conflicts ?? []).map((each) => (
        <p key={each.pod + each.cpus} class="problem">
          ! {each.reason && `${each.reason}: `}
          {each.message}
        </p>
      ))}
    </section>
  );
}

function cacheName(cache: { level: number; sizeBytes: number | null } | undefined): string {
  if (!cache) return "";
  return `L${cache.level}${cache.sizeBytes ? ` · ${Math.floor(cache.sizeBytes / 2 ** 20)} MiB` : ""}`;
}
