// The machine drawn: sockets, NUMA nodes, last-level caches, cores and their CPUs, and which pod owns which.
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
  conflicts?: { pod: string; cpus: string; reason: string; message: string }[];
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

export function Machine({ of, owner = "pod" }: { of: Topology; owner?: "pod" | "guest" }) {
  const [lit, setLit] = useState("");
  const owners = of.owners ?? [];
  const holders = new Map<number, number[]>();
  owners.forEach((each, place) => {
    for (const cpu of cpuList(each.cpus)) holders.set(cpu, [...(holders.get(cpu) ?? []), place]);
  });
  const reserved = new Set(cpuList(of.reservedCPUs));
  const conflicts = new Set((of.conflicts ?? []).flatMap((each) => cpuList(each.cpus)));
  const offline = cpuList(of.offlineCPUs);
  const kindOf = (cpu: number): [string, string] => {
    if (conflicts.has(cpu)) return ["conflict", "!"];
    const places = holders.get(cpu);
    if (places) return ["owned", places.map((place) => place + 1).join("+")];
    return reserved.has(cpu) ? ["reserved", "R"] : ["free", ""];
  };

  const cell = (thread: Thread) => {
    const [kind, sign] = kindOf(thread.cpu);
    const names = (holders.get(thread.cpu) ?? []).map((place) => owners[place]?.pod ?? "");
    return (
      <span
        key={thread.cpu}
        class={`cpu ${kind} ${names.includes(lit) ? "lit" : ""}`}
        title={`CPU ${thread.cpu}: ${names.length ? `owned by ${names.join(", ")}` : kind === "free" ? "shared" : kind}`}
      >
        {thread.cpu}
        {sign && <small>{sign}</small>}
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
                          <span key={core} class="core" title={`core ${core ?? "unknown"}`}>
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
          <div class="socket">
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
        <li><span class="cpu owned">0<small>1</small></span> owned by {owner} 1 of the table</li>
        <li><span class="cpu free">0</span> shared</li>
        {reserved.size > 0 && <li><span class="cpu reserved">0<small>R</small></span> reserved for the system</li>}
        {conflicts.size > 0 && <li><span class="cpu conflict">0<small>!</small></span> claimed twice</li>}
      </ul>
      {owners.length > 0 ? (
        <Plain
          caption="Owners of CPUs"
          head={["Number", owner === "pod" ? "Pod" : "Guest", "CPUs", "How many"]}
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
            each.cpus,
            cpuList(each.cpus).length,
          ])}
        />
      ) : (
        <p>No {owner} owns CPUs here: all of them are shared.</p>
      )}
      {(of.conflicts ?? []).map((each) => (
        <p key={each.pod + each.cpus} class="problem">
          ! {each.reason}: {each.message}
        </p>
      ))}
    </section>
  );
}

function cacheName(cache: { level: number; sizeBytes: number | null } | undefined): string {
  if (!cache) return "";
  return `L${cache.level}${cache.sizeBytes ? ` · ${Math.floor(cache.sizeBytes / 2 ** 20)} MiB` : ""}`;
}
