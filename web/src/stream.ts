// What the server sends: whole tables and documents, then what changes in them, over server-sent events.
//
// A connection that breaks or stays silent is made again; then the server sends everything anew (`all`). Until
// then the page keeps what it has and says so.
import { batch, type Signal, signal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type Row = Record<string, Json> & { name: string };

export interface TableData {
  rows: ReadonlyMap<string, Row>;
  total: Record<string, Json> | null;
  remarks: string[];
  /** Comes with the nodes: what one requested CPU is worth on each kind of machine. */
  worth?: Json;
}

/** `loading` until something has come; `lost` keeps what came before; `failed` is an answer of the server. */
export type State = "loading" | "live" | "lost" | "failed";

export interface Feed<T> {
  data: Signal<T | null>;
  state: Signal<State>;
  message: Signal<string>;
  /** The caller may not see this: another answer may be possible with less. */
  forbidden: Signal<boolean>;
}

interface Whole {
  rows: Row[];
  total: Record<string, Json> | null;
  remarks: string[];
  /** Comes with the nodes: what one requested CPU is worth on each kind of machine. */
  worth?: Json;
}

interface Delta extends Partial<Whole> {
  gone?: string[];
}

/** What every open view is connected to: the header shows the worst state. */
export const feeds = signal<readonly Feed<unknown>[]>([]);

export interface Session {
  version: string;
  /** The context of the kubeconfig. */
  cluster: string;
  /** The address of the API server. */
  server?: string;
  user: string;
  /** Compute hosts are shown too. */
  placement: boolean;
}

export const session = signal<Session | null>(null);

/** The bearer token that a server in a cluster wants; it is kept as long as the page is open, and no longer. */
export const token = signal("");
export const tokenWanted = signal(false);

/** By how many milliseconds the server's clock is ahead of this browser's: times on the page are the server's. */
let ahead = 0;

/** The server's time, to the second. */
export const serverTime = (): number => Date.now() + ahead;

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token.value) headers.set("Authorization", `Bearer ${token.value}`);
  const answer = await fetch(`/api/${path}`, { ...init, headers });
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) ahead = date - Date.now();
  if (answer.status === 401) tokenWanted.value = true;
  return answer;
}

// A browser has six connections for all pages of one server, so a page that nobody sees gives its own back.
const HIDDEN_MS = 5_000;
const SILENT_MS = 40_000; // the server writes at least a comment every 15 s
const AGAIN_MS = 1_000;
const REFUSED_MS = 3_000;
const LOST = "The server of this page does not answer";

/** Wait until somebody can see the page. */
async function visible(): Promise<void> {
  while (document.hidden) {
    await new Promise((wake) => { document.addEventListener("visibilitychange", wake, { once: true }); });
  }
}

/** Read server-sent events until the stream ends. An EventSource hides comments and what a refusal says. */
async function readEvents(answer: Response, heard: () => void, event: (name: string, data: string) => void): Promise<void> {
  const reader = answer.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let rest: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const text = decoder.decode(value, { stream: true });
    rest.push(text);
    if (!text.includes("\n")) continue;
    const blocks = rest.join("").replaceAll("\r", "").split("\n\n");
    rest = [blocks.pop() ?? ""];
    for (const block of blocks) {
      let name = "message";
      const data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
      }
      if (data.length) event(name, data.join("\n"));
    }
  }
}

function connect<T>(path: string, feed: Feed<T>, on: Record<string, (data: unknown) => void>): () => void {
  const ended = new AbortController();
  let attempt = new AbortController();
  let silence: ReturnType<typeof setTimeout> | undefined;
  let hiding: ReturnType<typeof setTimeout> | undefined;
  const hide = (): void => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => { attempt.abort(); }, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", hide, { signal: ended.signal });

  const tell = (state: State, message = ""): void => {
    batch(() => {
      feed.state.value = state;
      feed.message.value = message;
    });
  };
  const heard = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      attempt.abort();
    }, SILENT_MS);
  };
  const follow = async (): Promise<void> => {
    attempt = new AbortController();
    heard();
    const answer = await ask(`stream/${path}`, {
      headers: { Accept: "text/event-stream" },
      signal: AbortSignal.any([ended.signal, attempt.signal]),
    });
    if (!answer.ok) {
      const text = await answer.text();
      feed.forbidden.value = answer.status === 403;
      tell("failed", messageOf(text) || `${answer.status} ${answer.statusText}`);
      return;
    }
    await readEvents(answer, heard, (name, data) => {
      const parsed: unknown = JSON.parse(data);
      if (name === "lost") tell("lost", `The cluster does not answer: ${(parsed as { message: string }).message}`);
      else {
        batch(() => {
          on[name]?.(parsed);
          tell("live");
        });
      }
    });
  };
  const loop = async (): Promise<void> => {
    for (;;) {
      await visible();
      try {
        await follow();
        if (feed.state.value !== "failed") tell("lost", LOST);
      } catch {
        if (ended.signal.aborted) return;
        if (document.hidden) tell("loading");
        else tell("lost", LOST);
      }
      clearTimeout(silence);
      await new Promise((wake) => setTimeout(wake, feed.state.value === "failed" ? REFUSED_MS : AGAIN_MS));
    }
  };
  void loop();
  return () => {
    ended.abort();
  };
}

export function messageOf(text: string): string {
  try {
    const body = JSON.parse(text) as { message?: string; error?: string };
    return body.message ?? body.error ?? "";
  } catch {
    return text.startsWith("<") ? "" : text;
  }
}

function newFeed<T>(): Feed<T> {
  return { data: signal<T | null>(null), state: signal<State>("loading"), message: signal(""), forbidden: signal(false) };
}

function useConnection<T>(path: string, make: (feed: Feed<T>) => Record<string, (data: unknown) => void>): Feed<T> {
  const [feed, setFeed] = useState(() => newFeed<T>());
  // The request is sent before the browser paints the empty view.
  useLayoutEffect(() => {
    const mine = newFeed<T>();
    setFeed(mine);
    feeds.value = [...feeds.value, mine];
    const close = connect(path, mine, make(mine));
    return () => {
      close();
      feeds.value = feeds.value.filter((each) => each !== mine);
    };
  }, [path]);
  return feed;
}

function keyed(rows: Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [row.name, row]));
}

/** Follow a table as long as the component is shown; `namespace` is "" for all. Rows keep their order; new ones are sorted in by name. */
export function useTable(name: string, namespace = ""): Feed<TableData> {
  return useConnection<TableData>(`tables/${name}${namespace && `?namespace=${encodeURIComponent(namespace)}`}`, (feed) => ({
    all: (data) => {
      const { rows, total, remarks, worth = null } = data as Whole;
      feed.data.value = { rows: keyed(rows), total, remarks, worth };
    },
    change: (data) => {
      const before = feed.data.value;
      if (before === null) return;
      const delta = data as Delta;
      const rows = new Map(before.rows);
      for (const gone of delta.gone ?? []) rows.delete(gone);
      for (const row of delta.rows ?? []) rows.set(row.name, row);
      feed.data.value = {
        rows,
        total: delta.total === undefined ? before.total : delta.total,
        remarks: delta.remarks ?? before.remarks,
        worth: delta.worth ?? before.worth ?? null,
      };
    },
  }));
}

/** Follow a document as long as the component is shown. */
export function useDocument<T>(path: string): Feed<T> {
  return useConnection<T>(path, (feed) => ({
    all: (data) => {
      feed.data.value = data as T;
    },
  }));
}
